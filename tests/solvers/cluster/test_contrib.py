"""The manifest in contrib/cluster fits together, and the calls of its page exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tpnn

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "contrib" / "cluster"


def test_the_manifest_is_a_job_whose_parts_fit_together() -> None:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((FOLDER / "kuberay.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for group in groups:
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        assert container["image"].startswith(f"rayproject/ray:{cluster['rayVersion']}-")
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes
    least = re.search(r'ray = .*"ray>=([\d.]+),<3"', (ROOT / "pyproject.toml").read_text())
    assert least is not None
    assert cluster["rayVersion"].startswith(least[1])
    entry = job["spec"]["entrypoint"].split()
    workers = cluster["workerGroupSpecs"][0]
    (container,) = workers["template"]["spec"]["containers"]
    cores = workers["replicas"] * int(container["resources"]["requests"]["cpu"])
    assert int(entry[entry.index("--workers") + 1]) <= cores
    (installed,) = yaml.safe_load(job["spec"]["runtimeEnvYAML"])["pip"]
    wheel = f"tpnn-{tpnn.__version__}-py3-none-any.whl"  # no index has tpnn
    assert re.fullmatch(rf"tpnn\[ray\] @ https://\S+/{re.escape(wheel)}", installed)
    assert job["spec"]["backoffLimit"] > 0  # else nothing starts a lost driver again


def test_the_calls_of_spark_exist() -> None:
    spark = pytest.importorskip("ray.util.spark")
    import inspect

    shown = (FOLDER / "README.md").read_text()
    call = re.search(r"setup_ray_cluster\((.*)\)\n", shown)
    assert call is not None
    names = re.findall(r"(\w+)=", call[1])
    assert set(names) <= set(inspect.signature(spark.setup_ray_cluster).parameters)
