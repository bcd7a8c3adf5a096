"""What Aliyun's and others' brokers do beyond RocketMQ; put into the broker by the app."""
