package io.github.mocketmq;

/** A broker that could not be found, started or reached, or that refused a request; the message says what to do. */
public final class BrokerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /**
     * Makes an exception.
     *
     * @param message what was wrong, and what to do
     */
    public BrokerException(String message) {
        super(message);
    }

    /**
     * Makes an exception with a cause.
     *
     * @param message what was wrong, and what to do
     * @param cause the exception behind it
     */
    public BrokerException(String message, Throwable cause) {
        super(message, cause);
    }
}
