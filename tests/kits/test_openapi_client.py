"""Generators of clients make working ones from the OpenAPI document: TypeScript, Java and Go."""

import os
import shutil
from pathlib import Path

import pytest

from tests.kits.running import run
from tests.support.process import forked_broker

PROJECT = Path(__file__).with_name("openapi")
GENERATOR = "org.openapitools:openapi-generator-cli:7.14.0"
FETCH = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"

pytestmark = pytest.mark.interop


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


@needs("node", "npm")
async def test_a_typescript_client_sends_waits_and_consumes(tmp_path: Path) -> None:
    work = tmp_path / "client"
    shutil.copytree(PROJECT, work, ignore=shutil.ignore_patterns("node_modules"))
    run("npm", "ci", "--no-audit", "--no-fund", cwd=work)
    async with forked_broker("--clock", "manual") as broker:
        # Fields with a default may be left out of requests.
        options = ("--output", "api.d.ts", "--default-non-nullable", "false")
        run("npx", "openapi-typescript", f"{broker.url}/openapi.json", *options, cwd=work)
        run("npx", "tsc", "--project", ".", cwd=work)
        assert "done" in run("node", "delayed.mjs", broker.url, cwd=work)


@needs("java", "mvn")
async def test_a_java_client_sends_waits_and_consumes(tmp_path: Path) -> None:
    work = tmp_path / "client"
    async with forked_broker("--clock", "manual") as broker:
        # The generator has no working Java for a field that takes text or a list of texts.
        options = ("--library", "native", "--schema-mappings", "FaultIn_by=Object")
        packages = [f"--{kind}-package=mocketmq" for kind in ("api", "model", "invoker")]
        generate("java", broker.url, *options, *packages, into=work)
        shutil.copy(PROJECT / "Delayed.java", work / "src" / "main" / "java")
        skipped = ("-Dmaven.test.skip", "-Dmaven.javadoc.skip", "-Dmaven.source.skip")
        run("mvn", "--batch-mode", "--quiet", "package", *skipped, cwd=work)
        class_path = os.pathsep.join(["target/*", "target/lib/*"])
        assert "done" in run("java", "-cp", class_path, "Delayed", broker.url, cwd=work)


@needs("java", "mvn", "go")
async def test_a_go_client_sends_waits_and_consumes(tmp_path: Path) -> None:
    work = tmp_path / "client"
    async with forked_broker("--clock", "manual") as broker:
        names = ("--package-name", "mocketmq", "--git-host", "example.test")
        generate(
            "go", broker.url, *names, "--git-user-id", "generated", "--git-repo-id", "mocketmq", into=work
        )
        (work / "delayed").mkdir()
        shutil.copy(PROJECT / "delayed.go", work / "delayed")
        assert "done" in run("go", "run", "./delayed", broker.url, cwd=work)


def generate(language: str, url: str, *options: str, into: Path) -> None:
    """Generate a client by openapi-generator, which Maven fetches once."""
    copied = (f"-Dartifact={GENERATOR}", f"-DoutputDirectory={into}", "-Dmdep.stripVersion")
    into.mkdir()
    run("mvn", "--batch-mode", "--quiet", FETCH, *copied, cwd=into)
    document = ("--input-spec", f"{url}/openapi.json", "--output", str(into))
    generator = ("java", "-jar", "openapi-generator-cli.jar")
    run(*generator, "generate", "--generator-name", language, *document, *options, cwd=into)
