"""What helm makes of the chart: the objects, and a file that the gateway reads."""

import hashlib
import re

import pytest
import yaml

from penstock.configuration import load_configuration
from tests.deploy.chart import CHART, OF_A_CLUSTER, helm, notes_of, only, render, rendered

pytestmark = [pytest.mark.helm, pytest.mark.system]
RULES = CHART.parents[1] / "prometheus" / "penstock.rules.yml"
CONFIG = {"upstream.bootstrap.servers": "kafka-0.kafka:9092"}
EVERYTHING = {
    "config": CONFIG | {"upstream.ssl.key.password": "${file:/etc/penstock-secrets/tls/password}"},
    "files": {"orders.py": "class One: pass\n"},
    "secrets": ["tls"],
    "env": [{"name": "A", "value": "b"}],
    "envFrom": [{"secretRef": {"name": "more"}}],
    "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "serviceAccountName": "gateways",
    "extraVolumes": [{"name": "cache", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "cache", "mountPath": "/var/cache/penstock"}],
    "imagePullSecrets": [{"name": "pull"}],
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "streams"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "kafka", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "priorityClassName": "high",
}


def pod(workload: dict) -> dict:
    return workload["spec"]["template"]["spec"]


def test_helm_finds_no_mistake(tmp_path):
    done = helm("lint", "--strict", str(CHART), *OF_A_CLUSTER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 chart(s) failed" in done.stdout


def test_invalid_values_are_refused(tmp_path):
    done = helm("template", "trial", str(CHART), "--set", "replica=3", *OF_A_CLUSTER)
    assert done.returncode != 0
    assert "replica" in done.stderr


def test_the_default_installation(tmp_path):
    objects = rendered(tmp_path, {})
    assert sorted(document["kind"] for document in objects) == [
        "ConfigMap", "PodDisruptionBudget", "Secret", "Service", "Service", "StatefulSet",
    ]  # fmt: skip


def test_replicas_have_stable_names_and_no_volumes(tmp_path):
    workload = only(rendered(tmp_path, {}), "StatefulSet")
    assert workload["spec"]["replicas"] == 2
    assert workload["spec"]["serviceName"] == "trial-penstock-metrics"
    assert "volumeClaimTemplates" not in workload["spec"]
    container = pod(workload)["containers"][0]
    assert container["args"] == ["gateway", "/etc/penstock/penstock.properties"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod(workload)["securityContext"]["runAsNonRoot"] is True
    assert pod(workload)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(workload)["automountServiceAccountToken"] is False
    assert container["resources"]["limits"]["memory"]


def test_the_notes_explain_how_to_open_the_console(tmp_path):
    values = {"metrics": {"port": 9400, "token": {"key": "a.b"}}}
    notes = notes_of(tmp_path, values)
    assert "kubectl --namespace kafka port-forward statefulset/trial-penstock 9400" in notes
    assert "http://127.0.0.1:9400/" in notes
    assert (
        "get secret trial-penstock-metrics --output go-template="
        """'{{index .data "a.b" | base64decode}}'"""
    ) in notes


def test_probes_use_the_metrics_listener(tmp_path):
    container = pod(only(rendered(tmp_path, {"metrics": {"port": 9400}}), "StatefulSet"))[
        "containers"
    ][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"bootstrap": 9192, "metrics": 9400}
    probes = {
        name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")
    }
    assert probes == {
        "startup": {"path": "/readyz", "port": "metrics"},
        "liveness": {"path": "/livez", "port": "metrics"},
        "readiness": {"path": "/readyz", "port": "metrics"},
    }


SNI = {
    "listener": {"protocol": "SASL_SSL", "proxyProtocol": True},
    "advertisedHost": "kafka.example.com",
    "brokers": {"addresses": "sni"},
}


@pytest.mark.parametrize(("advertised", "port"), [({}, 9192), ({"advertisedPort": 443}, 443)])
def test_a_single_port_for_all_brokers(tmp_path, advertised, port):
    objects = rendered(tmp_path, SNI | advertised)
    service = next(
        document
        for document in objects
        if document["metadata"]["name"] == "trial-penstock" and document["kind"] == "Service"
    )
    assert service["spec"]["ports"] == [{"name": "bootstrap", "port": port, "targetPort": 9192}]
    written = only(objects, "ConfigMap")["data"]["penstock.properties"]
    file = tmp_path / "penstock.properties"
    file.write_text(
        "".join(line for line in written.splitlines(keepends=True) if "/run/penstock/" not in line)
    )
    read = load_configuration(file)
    assert (read.broker_addresses, read.advertised_port) == ("sni", port)
    assert read.listener_proxy_protocol
    assert read.broker_ports is None


@pytest.mark.parametrize(
    ("without", "message"),
    [("listener", "listener.protocol SSL"), ("advertisedHost", "needs advertisedHost")],
)
def test_names_of_brokers_need_tls_and_a_host(tmp_path, without, message):
    done = render(tmp_path, {key: SNI[key] for key in SNI if key != without})
    assert done.returncode != 0
    assert message in done.stderr


def test_every_broker_has_a_port_at_the_service(tmp_path):
    values = {"listener": {"port": 9000}, "brokers": {"firstId": 3, "ports": 2}}
    objects = rendered(tmp_path, values)
    service = next(
        document
        for document in objects
        if document["metadata"]["name"] == "trial-penstock" and document["kind"] == "Service"
    )
    assert {port["name"]: port["port"] for port in service["spec"]["ports"]} == {
        "bootstrap": 9000, "broker-3": 9001, "broker-4": 9002,
    }  # fmt: skip
    file = only(objects, "ConfigMap")["data"]["penstock.properties"]
    assert "broker.ports=9001-9002\n" in file
    assert "broker.ids.first=3\n" in file


def test_the_gateway_reads_the_file(tmp_path):
    odd = {
        "a.key:with=odd signs\\": " space, back\\slash, new\nline, # and ! and = and :",
        "topics.pii-*.records.policy.enabled": "true",
    }
    objects = rendered(tmp_path, {"config": CONFIG | odd})
    file = tmp_path / "penstock.properties"
    file.write_text(only(objects, "ConfigMap")["data"]["penstock.properties"])
    # The value of metrics.listener.token is a file of the container.
    configuration = load_configuration(file, without="metrics.")
    assert configuration.properties | odd == configuration.properties
    assert configuration.advertised_host == "trial-penstock.kafka.svc.cluster.local"
    assert list(configuration.broker_ports) == list(range(9193, 9203))
    assert "metrics.listener=0.0.0.0:9191\n" in file.read_text()


def test_keys_that_the_chart_sets_are_not_set_again(tmp_path):
    done = render(tmp_path, {"config": {"broker.ids.first": "1"}})
    assert done.returncode != 0
    assert "broker.ids.first is set by the chart" in done.stderr


def test_a_disruption_budget_does_not_hold_up_a_single_replica(tmp_path):
    assert only(rendered(tmp_path, {}), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    kinds = [document["kind"] for document in rendered(tmp_path, {"replicas": 1})]
    assert "PodDisruptionBudget" not in kinds


def test_every_value_has_its_place(tmp_path):
    objects = rendered(tmp_path, EVERYTHING)
    stateful, monitor = only(objects, "StatefulSet"), only(objects, "ServiceMonitor")
    container = pod(stateful)["containers"][0]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["secret-tls"] == "/etc/penstock-secrets/tls"
    assert mounts["cache"] == "/var/cache/penstock"
    assert pod(stateful)["serviceAccountName"] == "gateways"
    assert {volume["name"] for volume in pod(stateful)["volumes"]} == set(mounts)
    assert container["env"] == EVERYTHING["env"]
    assert container["envFrom"] == EVERYTHING["envFrom"]
    assert only(objects, "ConfigMap")["data"]["orders.py"] == "class One: pass\n"
    for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName", "imagePullSecrets"):
        assert pod(stateful)[key] == EVERYTHING[key]
    assert stateful["spec"]["template"]["metadata"]["labels"]["team"] == "streams"
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"]["name"] == "trial-penstock-metrics"
    labels = monitor["spec"]["selector"]["matchLabels"]
    services = [document for document in objects if document["kind"] == "Service"]
    assert [
        service["metadata"]["name"]
        for service in services
        if labels.items() <= service["metadata"]["labels"].items()
    ] == ["trial-penstock-metrics"]
    assert monitor["spec"]["jobLabel"] in services[0]["metadata"]["labels"]
    own = 'absent(up{job="penstock",namespace="kafka",service="trial-penstock-metrics"})'
    rules = RULES.read_text().replace('absent(up{job="penstock"})', own)
    assert only(objects, "PrometheusRule")["spec"] == yaml.safe_load(rules)


def test_alerts_name_the_job_of_the_service_monitor(tmp_path):
    monitor = only(rendered(tmp_path, EVERYTHING), "ServiceMonitor")
    services = [each for each in rendered(tmp_path, EVERYTHING) if each["kind"] == "Service"]
    jobs = {each["metadata"]["labels"][monitor["spec"]["jobLabel"]] for each in services}
    assert set(re.findall(r'job="(.*?)"', RULES.read_text())) == jobs


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"metrics": {"token": {"generate": False}}}, "name a Secret in existingSecret"),
        ({"metrics": {"port": 9195}}, "9195 is a port of the listener or of a broker (9192 to 9202)"),
        ({"listener": {"port": 65530}}, "end at 65540: the highest port is 65535"),
        ({"drain": 60}, "drain: 60 seconds must be less than terminationGracePeriodSeconds (60)"),
        ({"config": {"upstream.sasl.password": "secret"}}, "would be readable in a ConfigMap"),
        ({"config": {"policies.a.schema.registry.basic.auth.user.info": "a:b"}}, "a Secret: name"),
        (
            {"config": {"upstream.sasl.jaas.config": 'x required password="hunter2";'}},
            "would be readable in a ConfigMap",
        ),
        ({"autoscaling": {"enabled": True, "minReplicas": 9}}, "more than maxReplicas (6)"),
        ({"autoscaling": {"enabled": True}, "resources": None}, "needs resources.requests.cpu"),
        ({"audit": {"enabled": True}}, "audit.topics: name the topics"),
        (
            {"networkPolicy": {"enabled": True}, "metrics": {"serviceMonitor": {"enabled": True}}},
            "networkPolicy.metricsFrom: name Prometheus' pods",
        ),
    ],
)  # fmt: skip
def test_values_that_cannot_work_are_refused(tmp_path, values, message):
    done = render(tmp_path, values)
    assert done.returncode != 0
    assert message in done.stderr


def test_references_to_secrets_are_no_secrets(tmp_path):
    keys = {
        "upstream.sasl.password": "${env:PASSWORD}",
        "policies.sensitive.credentials.max": "3",
        "ssl.keystore.location": "/etc/penstock-secrets/tls/keystore.p12",
    }
    assert rendered(tmp_path, {"config": CONFIG | keys})


def test_a_token_of_a_secret_is_rendered_alike_each_time(tmp_path):
    values = {"metrics": {"token": {"generate": False, "existingSecret": "console"}}}
    values["metrics"]["token"]["generate"] = True  # of earlier values
    first, again = rendered(tmp_path, values), rendered(tmp_path, values)
    assert first == again
    assert "Secret" not in {each["kind"] for each in first}


def test_pods_roll_with_a_generated_token(tmp_path):
    sums = set()
    for _ in range(2):
        objects = rendered(tmp_path, {})
        annotations = only(objects, "StatefulSet")["spec"]["template"]["metadata"]["annotations"]
        token = only(objects, "Secret")["data"]["token"]
        assert annotations["checksum/token"] == hashlib.sha256(token.encode()).hexdigest()
        sums.add(annotations["checksum/token"])
    assert len(sums) == 2


def test_an_image_of_a_digest(tmp_path):
    values = {"image": {"repository": "here/penstock", "tag": "1", "digest": "sha256:" + "a" * 64}}
    container = pod(only(rendered(tmp_path, values), "StatefulSet"))["containers"][0]
    assert container["image"] == "here/penstock:1@sha256:" + "a" * 64


def test_openshift_chooses_the_user(tmp_path):
    null = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"))
    workload = only(rendered(tmp_path, {"podSecurityContext": null}), "StatefulSet")
    assert pod(workload)["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_a_cluster_without_ipv4(tmp_path):
    values = {
        "listener": {"address": "[::]"},
        "service": {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]},
    }
    objects = rendered(tmp_path, values)
    file = only(objects, "ConfigMap")["data"]["penstock.properties"]
    assert "listeners=PLAINTEXT://[::]:9192\n" in file
    assert "metrics.listener=[::]:9191\n" in file
    services = [each["spec"] for each in objects if each["kind"] == "Service"]
    assert [each["ipFamilies"] for each in services] == [["IPv6"], ["IPv6"]]


@pytest.mark.parametrize(
    ("config", "age"), [({}, "600000"), ({"connections.max.age.ms": "5"}, "5")]
)
def test_replicas_by_cpu(tmp_path, config, age):
    objects = rendered(tmp_path, {"autoscaling": {"enabled": True}, "config": CONFIG | config})
    assert "replicas" not in only(objects, "StatefulSet")["spec"]
    scaler = only(objects, "HorizontalPodAutoscaler")["spec"]
    assert scaler["scaleTargetRef"]["kind"] == "StatefulSet"
    file = only(objects, "ConfigMap")["data"]["penstock.properties"]
    assert f"connections.max.age.ms={age}\n" in file


def test_connections_are_limited_to_peers(tmp_path):
    peers = [{"namespaceSelector": {"matchLabels": {"kafka": "yes"}}}]
    values = {"networkPolicy": {"enabled": True, "from": peers, "metricsFrom": peers}}
    policy = only(rendered(tmp_path, values), "NetworkPolicy")["spec"]
    own = policy["podSelector"]["matchLabels"]
    assert policy["ingress"] == [
        {"ports": [{"port": 9192, "endPort": 9202}], "from": peers},
        {"ports": [{"port": 9191}], "from": [{"podSelector": {"matchLabels": own}}, *peers]},
    ]


def test_a_nightly_audit(tmp_path):
    values = {
        "audit": {"enabled": True, "topics": ["orders", "pii-*"], "failOver": "1%"},
        "podLabels": {"team": "streams"},
        "nameOverride": "n" * 60,
    }
    objects = rendered(tmp_path, values)
    template = only(objects, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    assert len(only(objects, "CronJob")["metadata"]["name"]) <= 52
    assert template["metadata"]["labels"]["team"] == "streams"
    container = template["spec"]["containers"][0]
    assert container["args"] == [
        "check", "--since=1d", "--topic=orders,pii-*", "--max-records=1000000", "--fail-over=1%",
        "/etc/penstock/penstock.properties",
    ]  # fmt: skip
    assert (
        container["volumeMounts"]
        == pod(only(objects, "StatefulSet"))["containers"][0]["volumeMounts"]
    )
    for service in (each for each in objects if each["kind"] == "Service"):
        selector = service["spec"]["selector"].items()
        assert not selector <= template["metadata"]["labels"].items()


def test_another_configuration_is_rolled_out(tmp_path):
    sums = {
        only(rendered(tmp_path, values), "StatefulSet")["spec"]["template"]["metadata"][
            "annotations"
        ]["checksum/config"]
        for values in ({}, {"config": CONFIG}, {"files": {"a.py": ""}})
    }
    assert len(sums) == 3
