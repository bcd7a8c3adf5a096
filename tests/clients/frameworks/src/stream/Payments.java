package stream;

import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.springframework.stereotype.Component;
import shop.Journal;

/** Decides about payments by what the own database knows of them. */
@Component("payments")
public class Payments implements TransactionListener {
    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return switch (message.getUserProperty("state")) {
            case "COMMIT" -> LocalTransactionState.COMMIT_MESSAGE;
            case "ROLLBACK" -> LocalTransactionState.ROLLBACK_MESSAGE;
            default -> LocalTransactionState.UNKNOW;
        };
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        Journal.write("checks", message.getKeys());
        return LocalTransactionState.COMMIT_MESSAGE;
    }
}
