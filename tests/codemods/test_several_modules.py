"""Parts of a program that other modules complete: what is rewritten fits what they do."""

from __future__ import annotations

import pytest

from .helpers import findings, migrated


def test_a_dataset_for_loops_of_other_modules_keeps_its_moves() -> None:
    """The loop, in another file, moves nothing: without them its batches stay on the host."""
    source = """
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Toy(Dataset):
            def __getitem__(self, i):
                return self.x[i].to(self.device), self.y[i].cuda()

        def collate(batch):
            return torch.stack(batch).cuda()

        def make(device):
            return DataLoader(Toy(device), 8, collate_fn=collate)
        """
    result = migrated(source)
    assert "self.x[i].to(self.device), self.y[i].to(xla.xla_device())" in result
    assert "torch.stack(batch).to(xla.xla_device())" in result
    assert [code for _, code in findings(result)] == ["XLA405"] * 3


@pytest.mark.parametrize("name", ["accelerator", "self.accelerator", "fabric"])
def test_functions_that_are_handed_an_accelerator_are_left_to_it(name: str) -> None:
    source = f"""
        import torch

        def train(self, accelerator, fabric, model, loader, optimizer):
            for x, y in loader:
                loss = model(x, y)
                {name}.backward(loss)
                optimizer.step()
                optimizer.zero_grad()

        def evaluate(self, accelerator, fabric, model, loader):
            with torch.no_grad():
                for x, y in loader:
                    print(model(x.to({name}.device), y))
        """
    assert "xla" not in migrated(source)


def test_what_is_called_an_accelerator_here_may_be_a_class_of_the_file() -> None:
    source = """
        class Fast:
            def backward(self, loss):
                loss.backward()

        def train(model, batches, optimizer):
            accelerator = Fast()
            for x in batches:
                accelerator.backward(model(x))
                optimizer.step()
        """
    assert "xla.optimizer_step(optimizer)" in migrated(source)


@pytest.mark.parametrize("ids", ["gpu_ids", "opt.gpu_ids", "device_ids", "gpus", "args.gpu_list"])
def test_the_first_of_a_list_of_devices(ids: str) -> None:
    source = f"""
        import torch

        def init_net(net, opt, args, gpu_ids=[], device_ids=(), gpus=()):
            if len({ids}) > 0:
                net.to({ids}[0])
            return net
        """
    assert f"net.to(xla.xla_device({ids}[0]))" in migrated(source)


def test_other_lists_and_slices_of_devices_stay() -> None:
    source = """
        import torch

        def move(x, dtypes, gpu_ids):
            return x.to(dtypes[0]), gpu_ids[1:]
        """
    assert "xla" not in migrated(source)
