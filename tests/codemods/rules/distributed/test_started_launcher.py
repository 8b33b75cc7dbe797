"""Launchers for GPUs that Python starts."""

from __future__ import annotations

from tests.each import each

from ...helpers import findings, migrated

HEAD = "import os, shlex, subprocess, sys, asyncio\nimport subprocess as sp\nfrom subprocess import run\n"

NAMED = [
    'os.system("accelerate launch --multi_gpu train.py")',
    'os.system(f"cd x && CUDA=1 accelerate launch --multi_gpu train.py --lr {LR}")',
    'os.system("accelerate launch --multi_gpu %s" % sys.argv[1])',
    'os.system("accelerate launch --num_processes 4 " + sys.argv[1])',
    'os.system("accelerate launch --num_processes 4 {}".format(sys.argv[1]))',
    'run(["torchrun", "--nproc_per_node=gpu", "train.py"])',
    'sp.Popen(["torchrun", "--nproc-per-node", "auto", *sys.argv[1:]], env=os.environ)',
    'sp.call(args=["deepspeed", "--num_gpus", "4", "train.py"])',
    'sp.call("deepspeed train.py".split())',
    'sp.check_call(shlex.split("horovodrun -np 4 python train.py"))',
    'run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=gpu", "t.py"])',
    'run([sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "t.py"])',
    'run(["python", "-m", "torch.distributed.launch", f"--nproc_per_node={X}", "--nproc_per_node", "gpu"])',
    'run(["accelerate", "launch"] + ["--use_deepspeed"] + sys.argv[1:])',
    'cmd = ["accelerate", "launch"]\nif X:\n    cmd += ["--multi_gpu"]\ncmd.append("t.py")\nrun(cmd)',
    'cmd = ["accelerate", "launch"]\ncmd.extend(["--num_processes", "2"])\nrun(cmd)\nrun(cmd)',
    'cmd = "accelerate launch --multi_gpu t.py"\nrun(cmd, shell=True)',
    'run(" ".join(["accelerate", "launch", "--multi_gpu"]), shell=True)',
    'def sh(command, **more):\n    run(command, shell=True, **more)\nsh("deepspeed t.py")',
    'class A:\n    def sh(self, command):\n        run(command)\n    def go(self):\n        self.sh(["deepspeed", "t.py"])',
    'os.execvp("accelerate", ["accelerate", "launch", "--multi_gpu", "t.py"])',
    'asyncio.run(asyncio.create_subprocess_exec("deepspeed", "t.py"))',
    'def command(n):\n    return ["deepspeed", "--num_gpus", str(n), "t.py"]\nrun(command(4))',
    'def command():\n    words = ["accelerate", "launch"]\n    words.append("--multi_gpu")\n    return words\nrun(command())',
    'def line(n):\n    return f"accelerate launch --multi_gpu --num_processes {n} t.py"\nos.system(line(4))',
    'class A:\n    def words(self):\n        return ["deepspeed", "t.py"]\n    def go(self):\n        run(self.words())',
    'from invoke import task\n@task\ndef train(c):\n    c.run("deepspeed t.py", pty=True)',
    'import invoke\n@invoke.task(help={})\ndef train(ctx, n=4):\n    ctx.run(f"cd x && deepspeed --num_gpus {n} t.py")',
    'from invoke import Context\ndef train(ctx: Context):\n    words = "deepspeed t.py"\n    ctx.run(words)',
    'from fabric import Connection\nc = Connection("host")\nc.run("deepspeed t.py")',
    'import nox\n@nox.session\ndef train(session):\n    session.run("accelerate", "launch", "--multi_gpu", "t.py")',
    'get_ipython().system("accelerate launch --multi_gpu t.py")',
    'shell = get_ipython()\nshell.getoutput("deepspeed t.py")',
]

SILENT = [
    'print("accelerate launch --multi_gpu train.py")',
    'KINDS = ["deepspeed", "fsdp"]\nfor k in KINDS:\n    print(k)',
    'run(["echo", "deepspeed"])',
    'run(["accelerate", "config"])',
    'run(["torchrun", "--nproc_per_node=4", "t.py"])',
    'run(["torchrun", f"--nproc_per_node={N}", "t.py"])',
    'run(["accelerate", "launch", "--num_processes", "1", "t.py"])',
    'run(["accelerate", "launch", "--num_processes", str(N), "t.py"])',
    'run(["git", "clone", "deepspeed"])',
    'tool.run(["deepspeed", "t.py"])',
    "run(make())",
    'def command():\n    return ["python", "t.py"]\nrun(command())',
    "def again():\n    return again()\nrun(again())",
    'def train(tool):\n    tool.run("deepspeed t.py")',
    'tool = Tool()\ntool.system("deepspeed t.py")',
]


@each("source", NAMED)
def test_named(source: str) -> None:
    assert [code for _, code in findings(HEAD + source)] == ["XLA616"]


@each("source", SILENT)
def test_no_finding(source: str) -> None:
    assert findings(HEAD + source) == []


@each(
    "before, after",
    [
        (
            'run(["accelerate", "launch", "--mixed_precision=fp16", "t.py"])',
            'run(["accelerate", "launch", "--mixed_precision=bf16", "t.py"])',
        ),
        (
            "run(['accelerate', 'launch', '--mixed-precision', 'fp16'])",
            "run(['accelerate', 'launch', '--mixed-precision', 'bf16'])",
        ),
        (
            "os.system('accelerate launch --mixed_precision fp16 t.py --name fp16')",
            "os.system('accelerate launch --mixed_precision bf16 t.py --name fp16')",
        ),
        (
            'c = ["accelerate", "launch"]\nc += ["--mixed_precision", "fp16"]\nrun(c)',
            'c = ["accelerate", "launch"]\nc += ["--mixed_precision", "bf16"]\nrun(c)',
        ),
    ],
)
def test_float16(before: str, after: str) -> None:
    assert migrated(HEAD + before) == HEAD + after


@each(
    "source",
    [
        'os.system(f"accelerate launch --mixed_precision fp16 {X}")',
        'os.system("accelerate launch --mixed_precision fp16 \\"t.py\\"")',
        'os.system("accelerate launch "\n          "--mixed_precision fp16 t.py")',
        'os.system(r"accelerate launch --mixed_precision fp16 t.py")',
    ],
)
def test_a_text_that_is_made_stays(source: str) -> None:
    assert migrated(HEAD + source) == HEAD + source
    assert [code for _, code in findings(HEAD + source)] == ["XLA616"]
