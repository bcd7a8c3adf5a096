"""The Helm chart: linted, and rendered with values of every kind."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # comes with schemathesis
import pytest
import yaml

import mocketmq
from mocketmq.settings_sources import options
from tests.clients.recipes.pages import files
from tests.kits.running import run

CHART = Path(__file__).parents[2] / "charts" / "mocketmq"
KUSTOMIZE = CHART.with_name("kustomize")
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))

OWN = {
    *("advertise", "broker_port", "data", "grpc_port", "host", "http_port"),
    *("namesrv_port", "port", "ready_file", "token"),
    *("brokers", "slaves", "failover", "failover_after", "proxy_mode"),  # the service has the ports of one
}
"""Settings that the chart itself sets."""
HELM = "helm.sh/helm/v3/cmd/helm@v3.18.4"
BUILT = CHART.parents[1] / "build" / "helm"
VALIDATOR = "kubernetes-validate==1.37.0"
OLDEST, NEWEST = "1.25", "1.37"
"""Kubernetes versions for which schemas are available."""
VARIANTS = (
    (),
    ("settings.clock=manual", "token.secretName=api", "imagePullSecrets[0].name=registry"),
    ("persistence.enabled=true", "persistence.storageClass=fast", "service.type=NodePort"),
    ("settings.name_servers=2",),
    ("nodeSelector.disk=ssd", "tolerations[0].operator=Exists", "podAnnotations.team=shop"),
)
"""Values that render every part of the templates."""


@pytest.fixture(scope="session")
def helm() -> str:
    """Path of Helm, which Go builds if it is not installed."""
    found = shutil.which("helm", path=os.pathsep.join([os.environ["PATH"], str(BUILT)]))
    if found is not None:
        return found
    if shutil.which("go") is None:
        pytest.skip("needs Helm or Go")
    run("go", "install", HELM, cwd=CHART, GOBIN=str(BUILT))
    return str(BUILT / "helm")


Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def rendered(helm: str) -> Render:
    """Render a release with these values, and return its objects in order of kind."""

    def render(*values: str) -> list[dict[str, Any]]:
        given = [part for value in values for part in ("--set", value)]
        place = ("--namespace", "shop", "--kube-version", NEWEST)
        text = run(helm, "template", "test", str(CHART), *place, *given, cwd=CHART)
        return sorted(yaml.safe_load_all(text), key=lambda one: str(one["kind"]))

    return render


def test_chart_has_the_version_of_mocketmq() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert {chart["version"], chart["appVersion"]} == {mocketmq.__version__}


def test_the_values_follow_their_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


@pytest.mark.parametrize(
    "wrong",
    [
        {"settings": {"http_port": 1}},
        {"settings": {"Clock": "manual"}},
        {"image": {"pullPolicy": "Sometimes"}},
        {"replicas": 2},
    ],
)
def test_schema_refuses_invalid_values(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(VALUES | wrong, SCHEMA)


def test_settings_are_broker_settings_not_set_by_the_chart() -> None:
    known = {option.flag.removeprefix("--").replace("-", "_") for option in options()}
    assert sorted(known - OWN) == SCHEMA["properties"]["settings"]["propertyNames"]["enum"]
    assert known >= OWN


@pytest.mark.by_hand
def test_helm_lint_finds_no_problem(helm: str) -> None:
    assert "0 chart(s) failed" in run(helm, "lint", "--strict", str(CHART), cwd=CHART)


@pytest.mark.by_hand
def test_by_default_messages_are_kept_in_memory(rendered: Render) -> None:
    deployment, service = rendered()
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["args"] == ["serve", "--host", "0.0.0.0", "--data", ":memory:"]  # noqa: S104
    assert container["image"] == f"{VALUES['image']['repository']}:{mocketmq.__version__}"
    assert container["env"] == [{"name": "MOCKETMQ_ADVERTISE", "value": "test-mocketmq.shop.svc"}]
    assert pod["enableServiceLinks"] is False
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {port["targetPort"]: port["port"] for port in service["spec"]["ports"]}
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.by_hand
def test_values_reach_the_broker(rendered: Render) -> None:
    given = (
        "settings.clock=manual",
        "settings.topic_queues=8",
        "token.secretName=api",
        "persistence.enabled=true",
    )
    deployment, claim, _ = rendered(*given)
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["args"][-1] == "/data"
    env = {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}
    assert env["MOCKETMQ_CLOCK"] == "manual"
    assert env["MOCKETMQ_TOPIC_QUEUES"] == "8"
    assert env["MOCKETMQ_TOKEN"] == {"secretKeyRef": {"name": "api", "key": "token"}}
    assert {"name": "data", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}} in pod[
        "volumes"
    ]


@pytest.mark.by_hand
def test_each_name_server_has_a_port(rendered: Render) -> None:
    deployment, service = rendered("settings.name_servers=3")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    expected = {"namesrv": 9876, "namesrv-2": 9886, "namesrv-3": 9896}
    assert {name: port for name, port in ports.items() if name.startswith("namesrv")} == expected
    assert ports == {port["targetPort"]: port["port"] for port in service["spec"]["ports"]}


@pytest.mark.by_hand
def test_large_numbers_of_a_file_of_values_reach_the_broker(helm: str, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("settings: {max_message_bytes: 4194304}")
    cluster = ("--kube-version", NEWEST)
    text = run(helm, "template", str(CHART), *cluster, "--values", "values.yaml", cwd=tmp_path)
    assert 'value: "4194304"' in text


@pytest.mark.by_hand
def test_helm_refuses_settings_owned_by_the_chart(helm: str) -> None:
    told = run(helm, "template", "test", str(CHART), "--set", "settings.http_port=1", cwd=CHART, fails=True)
    assert "http_port" in told


def valid(objects: list[dict[str, Any]], folder: Path) -> None:
    """Check objects against the schemas of an old and of a new Kubernetes."""
    run("make", "--no-print-directory", "build/lock/bin/uv", cwd=CHART.parents[1])
    uv = str(CHART.parents[1] / "build" / "lock" / "bin" / "uv")
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects), "utf-8")
    for version in (OLDEST, NEWEST):
        check = ("kubernetes-validate", "--strict", "--kubernetes-version", version, "objects.yaml")
        run(uv, "tool", "run", "--no-config", "--from", VALIDATOR, *check, cwd=folder)


@pytest.mark.by_hand
@pytest.mark.parametrize("values", VARIANTS, ids=" ".join)
def test_kubernetes_schemas_allow_what_is_rendered(
    rendered: Render, values: tuple[str, ...], tmp_path: Path
) -> None:
    valid(rendered(*values), tmp_path)


def kustomized() -> list[dict[str, Any]]:
    """Return the objects without Helm, in order of kind."""
    names = yaml.safe_load((KUSTOMIZE / "kustomization.yaml").read_text("utf-8"))["resources"]
    return [yaml.safe_load((KUSTOMIZE / name).read_text("utf-8")) for name in names]


@pytest.mark.by_hand
def test_kustomize_has_the_objects_of_the_chart(rendered: Render, tmp_path: Path) -> None:
    own = kustomized()
    valid(own, tmp_path)
    for ours, charts in zip(own, rendered("fullnameOverride=mocketmq"), strict=True):
        assert (ours["kind"], ours["metadata"]["name"]) == (charts["kind"], charts["metadata"]["name"])
        assert ours["spec"].pop("selector")
        charts["spec"].pop("selector")
        if ours["kind"] == "Deployment":
            for one in (ours, charts):
                del one["spec"]["template"]["metadata"]
            [mine], [other] = (one["spec"]["template"]["spec"]["containers"] for one in (ours, charts))
            assert mine.pop("image") == "mocketmq"
            assert other.pop("image")
            # The namespace is unknown before deployment; only the pod knows it.
            assert mine.pop("env")[1]["value"] == "mocketmq.$(NAMESPACE).svc"
            assert other.pop("env")[0]["value"] == "mocketmq.shop.svc"
        assert ours["spec"] == charts["spec"]


def test_a_kustomization_of_ones_own_changes_what_is_there() -> None:
    deployment, service = kustomized()
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    own = yaml.safe_load(files("kubernetes")["kustomization.yaml"])
    [patch] = own["patches"]
    assert patch["target"] == {"kind": "Deployment", "name": deployment["metadata"]["name"]}
    [added] = yaml.safe_load(patch["patch"])
    assert added["path"] == "/spec/template/spec/containers/0/env/-"
    assert (
        added["value"]["name"].removeprefix("MOCKETMQ_").lower()
        in SCHEMA["properties"]["settings"]["propertyNames"]["enum"]
    )
