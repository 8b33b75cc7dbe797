"""A script that takes its rank from whatever launcher there is, as torchvision's references do."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from xla_codemods.engine import migrate
from xla_migrate.script_environment import free_port

from .. import warm
from ..runtime.rehearsal import SOURCE

pytestmark = pytest.mark.e2e
pytest.importorskip("torch_xla")

SCRIPT = """
import argparse
import json
import os
import subprocess
import torch
import torch.distributed as dist

def init_distributed_mode(args):
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        args.rank, args.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        args.gpu = int(os.environ["LOCAL_RANK"])
    elif "OMPI_COMM_WORLD_RANK" in os.environ:
        args.rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
        args.world_size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
        args.gpu = int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
    elif "MV2_COMM_WORLD_RANK" in os.environ:
        args.rank = int(os.environ["MV2_COMM_WORLD_RANK"])
        args.world_size = int(os.environ["MV2_COMM_WORLD_SIZE"])
        args.gpu = args.rank % torch.cuda.device_count()
    elif "PMI_RANK" in os.environ:
        args.rank, args.world_size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
        args.gpu = args.rank % torch.cuda.device_count()
    elif "SLURM_PROCID" in os.environ:
        args.rank = int(os.environ["SLURM_PROCID"])
        args.world_size = int(os.environ["SLURM_NTASKS"])
        args.gpu = args.rank % torch.cuda.device_count()
        nodes = os.environ["SLURM_JOB_NODELIST"]
        first = subprocess.getoutput(f"scontrol show hostname {nodes} | head -n1")
        os.environ["MASTER_ADDR"] = first
    else:
        args.distributed = False
        return
    args.distributed = True
    torch.cuda.set_device(args.gpu)
    args.dist_backend = "nccl"
    dist.init_process_group(backend=args.dist_backend, init_method=args.dist_url,
                            world_size=args.world_size, rank=args.rank)
    dist.barrier()

parser = argparse.ArgumentParser()
parser.add_argument("--dist_url", default="env://")
parser.add_argument("--world_size", default=1, type=int)
args = parser.parse_args()
init_distributed_mode(args)
device = torch.device("cuda")
torch.manual_seed(dist.get_rank())
model = torch.nn.Linear(4, 1).to(device)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.full((2, 4), float(args.rank)).to(device)
optimizer.zero_grad()
model(x).pow(2).mean().backward()
optimizer.step()
total = torch.tensor(float(args.rank)).to(device)
dist.all_reduce(total)
weights = [None, None]
dist.all_gather_object(weights, model.module.weight.tolist())
print("FOUND", json.dumps([args.rank, args.gpu, os.environ["LOCAL_RANK"], total.item(), weights]))
"""

# What each launcher says to process number %d. SLURM's are two nodes, as far as processes can tell.
LAUNCHERS = {
    "SLURM": {
        "SLURM_PROCID": "%d",
        "SLURM_LOCALID": "0",
        "SLURM_NTASKS": "2",
        "SLURM_NNODES": "2",
        "SLURM_NODEID": "%d",
        "SLURM_TASKS_PER_NODE": "1(x2)",
        "SLURM_JOB_NODELIST": "node[1-2]",
    },
    "MVAPICH2": {
        "MV2_COMM_WORLD_RANK": "%d",
        "MV2_COMM_WORLD_SIZE": "2",
        "MV2_COMM_WORLD_LOCAL_RANK": "%d",
        "MV2_COMM_WORLD_LOCAL_SIZE": "2",
    },
}


@pytest.mark.parametrize(("launcher", "address"), [("SLURM", "env://"), ("MVAPICH2", "tcp")])
def test_two_processes_are_two_replicas(launcher: str, address: str, tmp_path: Path) -> None:
    result = migrate(SCRIPT.encode())
    assert not [f for f in result.left if f.severity == "error"]
    script = tmp_path / "train.py"
    script.write_bytes(result.data)
    port = free_port()
    address = f"tcp://localhost:{port}" if address == "tcp" else address
    kept = {n: v for n, v in os.environ.items() if n not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    scontrol = tmp_path / "scontrol"  # SLURM's: it spells the list of nodes out
    scontrol.write_text("#!/bin/sh\necho localhost\necho localhost\n")
    scontrol.chmod(0o755)
    kept |= {"PYTHONPATH": str(SOURCE), "PJRT_DEVICE": "CPU", "MASTER_ADDR": "localhost"}
    kept["PATH"] = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    kept |= {"MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [warm.for_side("target"), str(script), "--dist_url", address],
            env={**kept, **{n: v.replace("%d", str(i)) for n, v in LAUNCHERS[launcher].items()}},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for i in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=400)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    for rank, output in enumerate(outputs):
        line = next((x for x in output.splitlines() if x.startswith("FOUND ")), None)
        assert line is not None, output
        *who, total, weights = json.loads(line.removeprefix("FOUND "))
        local = 0 if launcher == "SLURM" else rank
        assert who == [rank, local, str(local)]
        assert total == 1
        assert weights[0] == weights[1]
