# SPDX-License-Identifier: MIT
"""Random operations checked against a model (tests/fsx/fsx.c), while the server is killed again and again.

WORKSPACE_FSX_SECONDS: how long; a soak run sets 3600.  WORKSPACE_FSX_SEED: to repeat a run.
"""
import os
import pathlib
import random
import shutil
import subprocess
import time

import pytest

SECONDS = int(os.environ.get("WORKSPACE_FSX_SECONDS", "15"))
SEED = int(os.environ.get("WORKSPACE_FSX_SEED", random.randrange(1 << 30)))
SOURCE = pathlib.Path(__file__).parents[1] / "fsx" / "fsx.c"
N_PROCESSES = 3


@pytest.fixture(scope="module")
def fsx(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler for tests/fsx/fsx.c")
    exe = tmp_path_factory.mktemp("fsx") / "fsx"
    subprocess.run(["cc", "-O1", "-Wall", "-o", exe, SOURCE], check=True)
    return exe


def test_the_model_agrees_with_a_local_file(fsx, tmp_path):
    subprocess.run([fsx, "--seed", str(SEED), "--ops", "3000", tmp_path / "f"], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--cache-size", "1M", "--connections", "4", "--attr-timeout", "0")],
                         ids=["usual", "small"])
def test_random_operations_over_server_restarts(fsx, fresh, mounts, options):
    d = fresh()
    m = mounts(d, d.create_workspace()).mount(*options)
    seconds = max(1, SECONDS // 2)
    ps = [m.start([str(fsx), "--seed", str(SEED + i), "--seconds", str(seconds), f"f{i}"],
                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for i in range(N_PROCESSES)]
    chance = random.Random(SEED)
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(p.poll() is None for p in ps):
        try:
            ps[0].wait(0.5 + chance.random())
        except subprocess.TimeoutExpired:
            d.restart()
    outs = [p.communicate(timeout=120)[0] for p in ps]
    assert [p.returncode for p in ps] == [0] * N_PROCESSES, "\n".join(outs)
