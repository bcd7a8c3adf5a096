package io.github.mocketmq.junit5;

/** What the broker saw during a failed test. It is suppressed by the failure, so that every report shows it. */
public final class BrokerStory extends RuntimeException {
    private static final long serialVersionUID = 1;

    BrokerStory(String story) {
        super("what the broker saw in this test:\n" + story, null, false, false);
    }
}
