module github.com/mocketmq/mocketmq/kits/go

go 1.21
