"""The messages and enums of ``apache.rocketmq.v2``, one per line. ``messages`` makes classes from them.

A field is ``number name:type``; ``?`` marks an optional field, ``[]`` a repeated one, ``|x`` a member of
oneof x. ``i32``, ``i64``, ``str`` and ``f32`` are protobuf's int32, int64, string and float. What
rocketmq-apis has added since the 5.3.3 proxy is listed if mocketmq serves or refuses it; protobuf skips the
rest.
"""

from typing import Final

PACKAGE: Final = "apache.rocketmq.v2"
SERVICE: Final = f"{PACKAGE}.MessagingService"

ENUMS: Final = """
TransactionResolution: TRANSACTION_RESOLUTION_UNSPECIFIED=0 COMMIT=1 ROLLBACK=2
TransactionSource: SOURCE_UNSPECIFIED=0 SOURCE_CLIENT=1 SOURCE_SERVER_CHECK=2
Permission: PERMISSION_UNSPECIFIED=0 NONE=1 READ=2 WRITE=3 READ_WRITE=4
FilterType: FILTER_TYPE_UNSPECIFIED=0 TAG=1 SQL=2
AddressScheme: ADDRESS_SCHEME_UNSPECIFIED=0 IPv4=1 IPv6=2 DOMAIN_NAME=3
Encoding: ENCODING_UNSPECIFIED=0 IDENTITY=1 GZIP=2
MessageType: MESSAGE_TYPE_UNSPECIFIED=0 NORMAL=1 FIFO=2 DELAY=3 TRANSACTION=4 LITE=5 PRIORITY=6
DigestType: DIGEST_TYPE_UNSPECIFIED=0 CRC32=1 MD5=2 SHA1=3
ClientType: CLIENT_TYPE_UNSPECIFIED=0 PRODUCER=1 PUSH_CONSUMER=2 SIMPLE_CONSUMER=3 PULL_CONSUMER=4 \
LITE_PUSH_CONSUMER=5 LITE_SIMPLE_CONSUMER=6
Language: LANGUAGE_UNSPECIFIED=0 JAVA=1 CPP=2 DOT_NET=3 GOLANG=4 RUST=5 PYTHON=6 PHP=7 NODE_JS=8 RUBY=9 \
OBJECTIVE_C=10 DART=11 KOTLIN=12
QueryOffsetPolicy: BEGINNING=0 END=1 TIMESTAMP=2
LiteSubscriptionAction: PARTIAL_ADD=0 PARTIAL_REMOVE=1 COMPLETE_ADD=2 COMPLETE_REMOVE=3
OffsetPolicy: LAST=0 MIN=1 MAX=2
"""

MESSAGES: Final = """
Status: 1 code:i32; 2 message:str
Resource: 1 resource_namespace:str; 2 name:str
Address: 1 host:str; 2 port:i32
Endpoints: 1 scheme:AddressScheme; 2 addresses:Address[]
Broker: 1 name:str; 2 id:i32; 3 endpoints:Endpoints
MessageQueue: 1 topic:Resource; 2 id:i32; 3 permission:Permission; 4 broker:Broker; \
5 accept_message_types:MessageType[]
Assignment: 1 message_queue:MessageQueue
FilterExpression: 1 type:FilterType; 2 expression:str
SubscriptionEntry: 1 topic:Resource; 2 expression:FilterExpression
Digest: 1 type:DigestType; 2 checksum:str
DeadLetterQueue: 1 topic:str; 2 message_id:str
RetryPolicy: 1 max_attempts:i32; 2 exponential_backoff:ExponentialBackoff|strategy; \
3 customized_backoff:CustomizedBackoff|strategy
ExponentialBackoff: 1 initial:Duration; 2 max:Duration; 3 multiplier:f32
CustomizedBackoff: 1 next:Duration[]
Message: 1 topic:Resource; 2 user_properties:map; 3 system_properties:SystemProperties; 4 body:bytes
SystemProperties: 1 tag?:str; 2 keys:str[]; 3 message_id:str; 4 body_digest:Digest; \
5 body_encoding:Encoding; 6 message_type:MessageType; 7 born_timestamp:Timestamp; 8 born_host:str; \
9 store_timestamp?:Timestamp; 10 store_host:str; 11 delivery_timestamp?:Timestamp; 12 receipt_handle?:str; \
13 queue_id:i32; 14 queue_offset?:i64; 15 invisible_duration?:Duration; 16 delivery_attempt?:i32; \
17 message_group?:str; 18 trace_context?:str; 19 orphaned_transaction_recovery_duration?:Duration; \
20 dead_letter_queue?:DeadLetterQueue; 21 lite_topic?:str; 22 priority?:i32
Settings: 1 client_type?:ClientType; 2 access_point?:Endpoints; 3 backoff_policy?:RetryPolicy; \
4 request_timeout?:Duration; 5 publishing:Publishing|pub_sub; 6 subscription:Subscription|pub_sub; \
7 user_agent:UA; 8 metric:Metric; 9 client_properties:map
Publishing: 1 topics:Resource[]; 2 max_body_size:i32; 3 validate_message_type:bool
UA: 1 language:Language; 2 version:str; 3 platform:str; 4 hostname:str
Metric: 1 on:bool; 2 endpoints?:Endpoints
Subscription: 1 group?:Resource; 2 subscriptions:SubscriptionEntry[]; 3 fifo?:bool; \
4 receive_batch_size?:i32; 5 long_polling_timeout?:Duration; 6 lite_subscription_quota?:i32; \
7 max_lite_topic_size?:i32
QueryRouteRequest: 1 topic:Resource; 2 endpoints:Endpoints
QueryRouteResponse: 1 status:Status; 2 message_queues:MessageQueue[]
QueryAssignmentRequest: 1 topic:Resource; 2 group:Resource; 3 endpoints:Endpoints
QueryAssignmentResponse: 1 status:Status; 2 assignments:Assignment[]
HeartbeatRequest: 1 group?:Resource; 2 client_type:ClientType
HeartbeatResponse: 1 status:Status
NotifyClientTerminationRequest: 1 group?:Resource
NotifyClientTerminationResponse: 1 status:Status
SendMessageRequest: 1 messages:Message[]
SendMessageResponse: 1 status:Status; 2 entries:SendResultEntry[]
SendResultEntry: 1 status:Status; 2 message_id:str; 3 transaction_id:str; 4 offset:i64; 5 recall_handle:str
ReceiveMessageRequest: 1 group:Resource; 2 message_queue:MessageQueue; \
3 filter_expression:FilterExpression; 4 batch_size:i32; 5 invisible_duration?:Duration; 6 auto_renew:bool; \
7 long_polling_timeout?:Duration; 8 attempt_id?:str
ReceiveMessageResponse: 1 status:Status|content; 2 message:Message|content; \
3 delivery_timestamp:Timestamp|content
AckMessageEntry: 1 message_id:str; 2 receipt_handle:str; 3 lite_topic?:str
AckMessageRequest: 1 group:Resource; 2 topic:Resource; 3 entries:AckMessageEntry[]
AckMessageResultEntry: 1 message_id:str; 2 receipt_handle:str; 3 status:Status
AckMessageResponse: 1 status:Status; 2 entries:AckMessageResultEntry[]
ChangeInvisibleDurationRequest: 1 group:Resource; 2 topic:Resource; 3 receipt_handle:str; \
4 invisible_duration:Duration; 5 message_id:str; 6 lite_topic?:str; 7 suspend?:bool
ChangeInvisibleDurationResponse: 1 status:Status; 2 receipt_handle:str
ForwardMessageToDeadLetterQueueRequest: 1 group:Resource; 2 topic:Resource; 3 receipt_handle:str; \
4 message_id:str; 5 delivery_attempt:i32; 6 max_delivery_attempts:i32; 7 lite_topic?:str
ForwardMessageToDeadLetterQueueResponse: 1 status:Status
EndTransactionRequest: 1 topic:Resource; 2 message_id:str; 3 transaction_id:str; \
4 resolution:TransactionResolution; 5 source:TransactionSource; 6 trace_context:str
EndTransactionResponse: 1 status:Status
RecallMessageRequest: 1 topic:Resource; 2 recall_handle:str
RecallMessageResponse: 1 status:Status; 2 message_id:str
OffsetOption: 1 policy:OffsetPolicy|offset_type; 2 offset:i64|offset_type; 3 tail_n:i64|offset_type; \
4 timestamp:i64|offset_type
SyncLiteSubscriptionRequest: 1 action:LiteSubscriptionAction; 2 topic:Resource; 3 group:Resource; \
4 lite_topic_set:str[]; 5 version?:i64; 6 offset_option?:OffsetOption
SyncLiteSubscriptionResponse: 1 status:Status
TelemetryCommand: 1 status?:Status; 2 settings:Settings|command; \
3 thread_stack_trace:ThreadStackTrace|command; \
4 verify_message_result:VerifyMessageResult|command; \
5 recover_orphaned_transaction_command:RecoverOrphanedTransactionCommand|command; \
6 print_thread_stack_trace_command:PrintThreadStackTraceCommand|command; \
7 verify_message_command:VerifyMessageCommand|command; \
8 reconnect_endpoints_command:ReconnectEndpointsCommand|command; \
9 notify_unsubscribe_lite_command:NotifyUnsubscribeLiteCommand|command
ThreadStackTrace: 1 nonce:str; 2 thread_stack_trace?:str
VerifyMessageResult: 1 nonce:str
VerifyMessageCommand: 1 nonce:str; 2 message:Message
PrintThreadStackTraceCommand: 1 nonce:str
ReconnectEndpointsCommand: 1 nonce:str
NotifyUnsubscribeLiteCommand: 1 lite_topic:str
RecoverOrphanedTransactionCommand: 1 message:Message; 2 transaction_id:str
"""
