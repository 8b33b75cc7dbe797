"""Devices that typer and fire take from the command line."""

from __future__ import annotations

import pytest

from ...helpers import findings, migrated

BODY = "    return torch.ones(2, device=device)\n\ndef backward(loss):\n    loss.backward()\n"
MAPS = "    device = xla.device_type(device)\n"


@pytest.mark.parametrize(
    ("head", "runs"),
    [
        ('import typer\napp = typer.Typer()\n@app.command()\ndef main(device: str = "cuda"):\n', ""),
        ('import typer\napp = typer.Typer()\n@app.command("go")\ndef main(device: str = typer.Option("cuda:0", "-d")):\n', ""),
        ('import typer\ndef main(*, device: str = typer.Option("cuda", help="x")):\n', "typer.run(main)\n"),
        ('from fire import Fire\ndef main(lr, device="cuda" if torch.cuda.is_available() else "cpu"):\n', "Fire(main)\n"),
        ('import fire\ndef main(device="cuda"):\n', 'fire.Fire({"train": main})\n'),
    ],
)  # fmt: skip
def test_commands(head: str, runs: str) -> None:
    after = migrated(f"import torch\n{head}{BODY}{runs}")
    assert MAPS in after
    assert findings(after) == []


@pytest.mark.parametrize(
    ("head", "runs"),
    [
        ('import fire\ndef main(device="cuda"):\n', "main()\n"),
        ('import fire\ndef main(device="cpu"):\n', "fire.Fire(main)\n"),
        ('import fire\ndef main(kind="cuda"):\n    device = kind\n', "fire.Fire(main)\n"),
        ('import click\n@click.command()\ndef main(device="cuda"):\n', ""),
    ],
)
def test_others(head: str, runs: str) -> None:
    assert MAPS not in migrated(f"import torch\n{head}{BODY}{runs}")
