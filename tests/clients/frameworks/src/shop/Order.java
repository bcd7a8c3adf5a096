package shop;

/** What a customer ordered. The bank declines its payment as often as it says, then accepts. */
public record Order(String number, int declines) {
}
