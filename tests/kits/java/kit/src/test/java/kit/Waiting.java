package kit;

import io.github.mocketmq.MocketMq;

/** Prints the broker's address, and waits until the process is killed or its input ends. */
final class Waiting {
    public static void main(String[] arguments) throws Exception {
        System.out.println(MocketMq.running().url());
        System.in.read();
    }
}
