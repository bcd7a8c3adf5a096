package io.github.mocketmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BundleTest {
    /** The digest of {@code abc}. */
    private static final String ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    private static final byte[] LIST = (ABC + " x mocketmq\n" + ABC + " - lib/a b.txt\n").getBytes(StandardCharsets.UTF_8);

    @TempDir
    Path cache;

    private final AtomicInteger read = new AtomicInteger();

    private InputStream abc(String path) {
        read.incrementAndGet();
        return new ByteArrayInputStream("abc".getBytes(StandardCharsets.UTF_8));
    }

    private long foldersInTheCache() throws IOException {
        try (var found = Files.list(cache)) {
            return found.filter(Files::isDirectory).count();
        }
    }

    @Test
    void itIsUnpackedOnce() throws IOException {
        Path program = Bundle.unpacked(LIST, this::abc, cache);
        assertTrue(Files.isExecutable(program));
        assertEquals("abc", Files.readString(program.resolveSibling("lib/a b.txt")));
        assertEquals(program, Bundle.unpacked(LIST, this::abc, cache));
        assertEquals(2, read.get());
    }

    @Test
    void anotherVersionHasAnotherFolder() throws IOException {
        byte[] other = (ABC + " x mocketmq\n").getBytes(StandardCharsets.UTF_8);
        assertNotEquals(Bundle.unpacked(LIST, this::abc, cache), Bundle.unpacked(other, this::abc, cache));
    }

    @Test
    void aDamagedFileIsRefusedAndNothingIsLeft() throws IOException {
        IOException error = assertThrows(IOException.class, () -> Bundle.unpacked(LIST,
            path -> new ByteArrayInputStream(new byte[] {1}), cache));
        assertTrue(error.getMessage().contains("the digest of mocketmq"), error.getMessage());
        assertEquals(0, foldersInTheCache());
    }

    @Test
    void aMissingFileIsRefused() throws IOException {
        assertThrows(IOException.class, () -> Bundle.unpacked(LIST, path -> null, cache));
        assertEquals(0, foldersInTheCache());
    }
}
