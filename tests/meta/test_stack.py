"""The stack's files agree with each other: names, ports, paths, mounts."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests import grafana_files as files

yaml = files.need("yaml")
STACK = files.ROOT
BOARDS = sorted(path.name for path in (STACK / "dashboards").glob("*.json"))


def load(name):
    return yaml.safe_load((STACK / name).read_text(encoding="utf-8"))


def install(root, *args):
    return subprocess.run(
        [STACK / "install-debian.sh", "--root", root, *args], capture_output=True, text=True, check=False
    )


def test_compose_mounts_every_dashboard_where_grafana_looks():
    """Each dashboard is mounted into the folder that the provisioning names, and the home page is one of them."""
    grafana = load("compose.yaml")["services"]["grafana"]
    (provider,) = load("provisioning/dashboards/pimetrics.yaml")["providers"]
    folder = provider["options"]["path"]
    mounts = dict(volume.split(":")[:2] for volume in grafana["volumes"])
    assert sorted(to for to in mounts.values() if to.startswith(f"{folder}/")) == [
        f"{folder}/{name}" for name in BOARDS
    ]
    assert grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] in mounts.values()
    assert all((STACK / source).exists() for source in mounts if source.startswith("./"))


def test_grafana_is_told_where_prometheus_is():
    """The variable in the data source is the one that compose sets, and names the Prometheus service's port."""
    (source,) = load("provisioning/datasources/pimetrics.yaml")["datasources"]
    services = load("compose.yaml")["services"]
    assert services["grafana"]["environment"][source["url"].removeprefix("$")] == "http://prometheus:9090"
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == load("prometheus.yaml")["global"]["scrape_interval"]


def test_prometheus_scrapes_the_job_that_the_alerts_name():
    """Job and port are the same in prometheus.yaml, the alerts, the Containerfile and compose.yaml."""
    (job,) = load("prometheus.yaml")["scrape_configs"]
    assert set(re.findall(r'job="([^"]+)"', (STACK / "rules" / "alerts.yaml").read_text())) == {job["job_name"]}
    (address,) = job["static_configs"][0]["targets"]
    service, port = address.split(":")
    assert load("compose.yaml")["services"][service]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f'"0.0.0.0:{port}"' in (STACK / "Containerfile").read_text()


def test_compose_mounts_the_rules_where_prometheus_looks():
    """Both rule files are mounted where rule_files points."""
    (pattern,) = load("prometheus.yaml")["rule_files"]
    mounts = dict(volume.split(":")[:2] for volume in load("compose.yaml")["services"]["prometheus"]["volumes"])
    folder = pattern.removesuffix("*.yaml")
    assert {to for to in mounts.values() if to.startswith(folder)} == {
        f"{folder}recording.yaml",
        f"{folder}alerts.yaml",
    }


def test_nothing_listens_beyond_the_machine():
    """Every published port is bound to 127.0.0.1."""
    ports = [port for service in load("compose.yaml")["services"].values() for port in service["ports"]]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_images_are_pinned():
    """No image is `latest`; the dashboards are made for the Grafana that is named."""
    services = load("compose.yaml")["services"]
    assert services["grafana"]["image"].endswith(":11.6.0")
    assert all(re.search(r":v?\d+\.\d+\.\d+$", s["image"]) for s in services.values() if "image" in s)


def test_debian_host_gets_a_prometheus_that_loads(tmp_path):
    """What install-debian.sh writes is a configuration that promtool accepts, rules included, with the host's addresses."""
    done = install(tmp_path, "someone")
    assert done.returncode == 0, done.stderr
    config = tmp_path / "etc/prometheus/prometheus.yml"
    assert "127.0.0.1:9746" in config.read_text()
    config.write_text(config.read_text().replace("/etc/prometheus/rules", f"{tmp_path}/etc/prometheus/rules"))
    checked = subprocess.run(
        [files.program("promtool"), "check", "config", config], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count("rules found") == 2
    source = yaml.safe_load((tmp_path / "etc/grafana/provisioning/datasources/pimetrics.yaml").read_text())
    assert source["datasources"][0]["url"] == "http://127.0.0.1:9090"
    assert sorted(p.name for p in (tmp_path / "var/lib/grafana/dashboards/pimetrics").iterdir()) == BOARDS


def test_debian_host_keeps_a_prometheus_configuration_of_its_own(tmp_path):
    """An existing prometheus.yml is never overwritten; the words say what to add, and a second run is harmless."""
    config = tmp_path / "etc/prometheus/prometheus.yml"
    config.parent.mkdir(parents=True)
    config.write_text("scrape_configs: []\n")
    done = install(tmp_path, "someone")
    assert config.read_text() == "scrape_configs: []\n"
    assert "left as it is: add rule_files" in done.stdout
    assert install(tmp_path, "someone").returncode == 0


def test_debian_install_without_a_user_is_wrong_use():
    """Without a user the script writes nothing, says what to do and exits 2."""
    done = subprocess.run([STACK / "install-debian.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "name the user" in done.stderr


@pytest.mark.parametrize("unit", ["pimetrics.service", "pimetrics@.service"])
def test_units_are_valid(unit, tmp_path):
    """systemd finds nothing wrong with the units."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd on this machine")
    done = subprocess.run(
        ["systemd-analyze", "verify", STACK / "systemd" / unit], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pimetrics" not in done.stderr, done.stderr
