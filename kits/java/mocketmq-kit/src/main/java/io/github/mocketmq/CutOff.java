package io.github.mocketmq;

/** What {@link MocketMq#cutOffBroker} cuts a broker off from. */
public enum CutOff {
    /** The broker keeps its connections, and answers nothing. */
    CLIENTS("clients"),
    /** The broker serves its clients until routes forget it. */
    NAME_SERVERS("name-servers");

    final String side;

    CutOff(String side) {
        this.side = side;
    }
}
