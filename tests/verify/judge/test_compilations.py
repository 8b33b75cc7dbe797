from __future__ import annotations

from pathlib import Path

from xla_migrate.verify.judge.compilations import read

RULE = "=" * 80
END = "-" * 80


def block(cause: str, *frames: str) -> str:
    lines = [
        "Compilation Cause",
        f"  {cause}",
        "Graph Info:",
        "  Graph Hash: 4a",
        "Python Frame Triggered Execution:",
    ]
    lines += [f"  {frame}" for frame in frames]
    body = "".join(f"Compilation Analysis: {line}\n" for line in lines)
    return f"Compilation Analysis: {RULE}\n{body}Compilation Analysis: {END}\nCompilation Analysis: {RULE}\n"


def test_fact_4_5_causes_and_places(tmp_path: Path) -> None:
    project = tmp_path / "project"
    text = block(
        "user torch_xla.sync",
        "sync (/lib/torch_xla/torch_xla.py:88)",
        f"main ({project}/train.py:20)",
    )
    text += "Post Compilation Analysis: 1 MB\n"
    text += block(
        "most likely user code trying to access tensor value before torch_xla.sync",
        f"log ({project}/log.py:7)",
    )
    text += block(
        "user torch_xla.sync",
        "sync (/lib/torch_xla/torch_xla.py:88)",
        "step (/lib/accelerate/optimizer.py:9)",
    )
    file = tmp_path / "compilations.txt"
    file.write_text(text)
    found = read(file, str(project))
    assert [c.where for c in found] == ["train.py:20", "log.py:7", "/lib/accelerate/optimizer.py:9"]
    assert found[0].cause == "user torch_xla.sync"
    assert found[1].cause.startswith("most likely user code")
    assert [c.offset for c in found] == sorted(c.offset for c in found)


def test_without_a_file_there_are_none(tmp_path: Path) -> None:
    assert read(tmp_path / "compilations.txt", str(tmp_path)) == []
