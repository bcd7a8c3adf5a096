package io.github.mocketmq;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Comparator;
import java.util.Locale;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * mocketmq with its own Python, from a jar on the class path.
 *
 * <p>The jar holds the files as they are, and a list of them: a line for each file with its SHA-256 digest, {@code x} if
 * it is executable or {@code -}, and its path. The list's own digest names the folder in the user's cache, so an unpacked
 * bundle is never another version. It is unpacked under another name and renamed when every digest has been checked: a
 * folder of that name is whole. A lock lets one of several JVMs unpack while the others wait.
 */
final class Bundle {
    private static final String SYSTEM = system();
    private static final String ROOT = "/io/github/mocketmq/bundle/" + SYSTEM + "/";

    private Bundle() {
    }

    /** Returns the program of the bundle for this system, unpacked; null if no jar has one. */
    static Path unpacked() {
        try (InputStream list = Bundle.class.getResourceAsStream(ROOT + "files.txt")) {
            return list == null
                ? null
                : unpacked(list.readAllBytes(), path -> Bundle.class.getResourceAsStream(ROOT + path), cache());
        } catch (IOException error) {
            throw new BrokerException("the bundle of mocketmq cannot be unpacked in " + cache() + ": " + error
                + "; set XDG_CACHE_HOME to a folder that can be written", error);
        }
    }

    /** A file lock is for other JVMs; within one, it may be asked for only once at a time. */
    static synchronized Path unpacked(byte[] list, Function<String, InputStream> files, Path cache)
            throws IOException {
        Files.createDirectories(cache);
        Path folder = cache.resolve(SYSTEM + "-" + hex(sha256().digest(list)).substring(0, 16));
        Path program = folder.resolve("mocketmq");
        if (Files.exists(program)) {
            return program;
        }
        try (FileChannel channel = FileChannel.open(
                cache.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
                FileLock lock = channel.lock()) {
            if (lock.isValid() && !Files.exists(program)) {
                Path unfinished = Files.createTempDirectory(cache, "unpacking-");
                try {
                    for (String line : new String(list, StandardCharsets.UTF_8).split("\n")) {
                        unpack(line.split(" ", 3), files, unfinished);
                    }
                    Files.move(unfinished, folder, StandardCopyOption.ATOMIC_MOVE);
                } catch (IOException | RuntimeException error) {
                    delete(unfinished);
                    throw error;
                }
            }
        }
        return program;
    }

    private static void unpack(String[] entry, Function<String, InputStream> files, Path into) throws IOException {
        Path file = into.resolve(entry[2]);
        Files.createDirectories(file.getParent());
        MessageDigest digest = sha256();
        try (InputStream content = files.apply(entry[2])) {
            if (content == null) {
                throw new IOException("the jar has no " + entry[2]);
            }
            Files.copy(new DigestInputStream(content, digest), file);
        }
        if (!hex(digest.digest()).equals(entry[0])) {
            throw new IOException("the digest of " + entry[2] + " is not the one that the jar names");
        }
        if (entry[1].equals("x") && !file.toFile().setExecutable(true)) {
            throw new IOException(file + " cannot be made executable");
        }
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> found = Files.walk(folder)) {
            found.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }

    private static Path cache() {
        String folder = System.getenv("XDG_CACHE_HOME");
        return (folder == null || folder.isEmpty() ? Path.of(System.getProperty("user.home"), ".cache") : Path.of(folder))
            .resolve("mocketmq");
    }

    /** Returns the system as the bundles name it, such as {@code linux-x86_64}. */
    private static String system() {
        String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        return System.getProperty("os.name").toLowerCase(Locale.ROOT).split(" ")[0]
            + "-" + (machine.equals("amd64") ? "x86_64" : machine);
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error); // every Java has it
        }
    }
}
