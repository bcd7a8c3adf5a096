"""The Java that Spark needs."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from mocketmq.errors import EmulatorError

JAVA: Final = 17
"""The oldest Java version on which Spark 4.3 runs."""

_ADVICE: Final = (
    f"install a Java runtime {JAVA} or newer (Debian and Ubuntu: openjdk-{JAVA}-jre-headless; macOS:"
    f" brew install openjdk@{JAVA}), or let JAVA_HOME name one; only reports need it, the broker does not"
)


class JavaError(EmulatorError):
    """Java is missing or too old; the message says what to install."""


def check_java() -> str:
    """Return the version text of the Java that Spark would start. Raises JavaError if it is too old."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java") if home else "java")
    if java is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java on the PATH"
        raise JavaError(f"lateness reports run on Spark, which needs Java, and {where}: {_ADVICE}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode or found is None:
        raise JavaError(f"{java} does not run (java -version: {answer.stderr.strip()!r}): {_ADVICE}")
    if int(found[1]) < JAVA:
        raise JavaError(
            f"lateness reports run on Spark, which needs Java {JAVA}, and {java} is {found[1]}: {_ADVICE}"
        )
    return answer.stderr + answer.stdout
