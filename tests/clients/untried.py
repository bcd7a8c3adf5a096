"""Clients and tools that no test tries, and why."""

UNTRIED = {
    "C# `RocketMQ.Client` 5.2.1": (
        "only NuGet has the package, which CI cannot reach. Debian has no .NET SDK: its Mono lacks the .NET 5"
        " that the client needs, and PyPI has only a runtime of .NET Core 3.1"
    ),
    "C++ 5.1.1": (
        "no registry has a compiled package: its releases are sources for Bazel. Python's `rocketmq` 0.4.4 is"
        " the C++ client of 4.x"
    ),
    "PHP `rocketmq/rocketmq-php-sdk`, of August 2026": (
        "only Packagist has packages that it needs, such as `grpc/grpc`, and CI cannot reach it. Debian has"
        " PHP and Composer, but not the extension `grpc`"
    ),
    "RocketMQ Studio": (
        "no registry has a release: we looked on Maven Central, npm and PyPI, and among Debian's packages."
        " Its repository builds images from sources, in which the server still has stubs in place of a broker"
        " (July 2026)"
    ),
}

_HEAD = """\

## Clients that were not tried

CI uses packages of Debian, PyPI, npm, crates.io and Maven Central, and Go modules. CI does not build
other projects from source.

| client | why |
|---|---|"""


def table() -> str:
    """Return the page's section on them."""
    return "\n".join([_HEAD, *(f"| {client} | {reason} |" for client, reason in UNTRIED.items())])
