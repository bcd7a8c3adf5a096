package io.github.mocketmq;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * {@code mocketmq serve} as a child of this JVM.
 *
 * <p>The child stops when its standard input ends, so it does not outlive this JVM, even one that is killed.
 */
final class BrokerProcess extends FoundBroker {
    private static final Pattern READY = Pattern.compile("mocketmq \\S+ is ready.*?(https?://[^\\s,]+)");
    private static final int LAST_LINES = 20;
    private static final int START_S = 60;
    private static final int STOP_S = 10;
    private static final boolean IS_WINDOWS = File.separatorChar == '\\';

    private final Process process;
    private final Output output;

    private BrokerProcess(Process process, Output output, String url) {
        super(url);
        this.process = process;
        this.output = output;
    }

    /** Returns the program on the PATH, or null. */
    static Path onPath() {
        String path = System.getenv("PATH");
        for (String folder : path == null ? new String[0] : path.split(File.pathSeparator)) {
            try {
                Path program = Path.of(folder, IS_WINDOWS ? "mocketmq.exe" : "mocketmq");
                if (Files.isRegularFile(program) && Files.isExecutable(program)) {
                    return program;
                }
            } catch (InvalidPathException error) {
                // no folder of this system
            }
        }
        return null;
    }

    static BrokerProcess start(Path program, List<String> options) {
        List<String> command = new ArrayList<>(List.of(program.toString(), "serve", "--port", "0", "--until-eof"));
        command.addAll(options);
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().keySet().removeIf(name -> name.startsWith("MOCKETMQ_"));
        Process process;
        try {
            process = builder.start();
        } catch (IOException error) {
            throw new BrokerException("mocketmq cannot be run: " + error.getMessage(), error);
        }
        Output output = new Output(process);
        output.start();
        String why;
        try {
            return new BrokerProcess(process, output, output.url.get(START_S, TimeUnit.SECONDS));
        } catch (ExecutionException error) {
            why = "did not start";
        } catch (TimeoutException error) {
            why = "was not ready in " + START_S + " s";
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            why = "was not awaited: the thread was interrupted";
        }
        process.destroyForcibly();
        throw new BrokerException("the broker " + why + "\n" + String.join(" ", command) + "\n" + output.lastLines());
    }

    @Override
    protected boolean isAlive() {
        return process.isAlive();
    }

    @Override
    protected String lastWords() {
        return "the broker ended with exit code " + process.exitValue() + "; its last lines:\n" + output.lastLines();
    }

    @Override
    protected void stop() {
        process.destroy();
        try {
            if (!process.waitFor(STOP_S, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    /** Reads what the broker prints, so that the pipe never fills. */
    private static final class Output extends Thread {
        final CompletableFuture<String> url = new CompletableFuture<>();
        private final Process process;
        private final Deque<String> lines = new ArrayDeque<>();

        Output(Process process) {
            super("mocketmq output");
            setDaemon(true);
            this.process = process;
        }

        @Override
        public void run() {
            try (BufferedReader reader = new BufferedReader(
                    new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
                for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                    add(line);
                    Matcher ready = READY.matcher(line);
                    if (!url.isDone() && ready.find()) {
                        url.complete(ready.group(1));
                    }
                }
            } catch (IOException error) {
                add(error.toString());
            }
            url.completeExceptionally(new IOException("the output ended"));
        }

        synchronized String lastLines() {
            return String.join("\n", lines);
        }

        private synchronized void add(String line) {
            lines.add(line);
            if (lines.size() > LAST_LINES) {
                lines.remove();
            }
        }
    }
}
