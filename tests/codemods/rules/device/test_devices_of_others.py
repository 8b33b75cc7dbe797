"""`cuda` of one's own classes: neither moved nor counted."""

from __future__ import annotations

from ..lines import codes, line

OWN = """class Wheel:
    def cuda(self, n):
        return n
class Bike(Wheel):
    def cuda(self, n):
        return super().cuda(n)
Bike().cuda(3)
"""


def test_it_is_no_second_device() -> None:
    source = f"{OWN}model.cuda()"
    assert codes(source) == ["XLA101"]


def test_it_stays() -> None:
    assert line(OWN) == OWN


def test_a_modules_own_hands_on_to_the_next() -> None:
    source = """class A(torch.nn.Module):
    def cuda(self):
        return super().cuda()
class B(A):
    def cuda(self):
        return super().cuda()
"""
    first = source.replace("super().cuda()", "super().to(xla.xla_device())", 1)
    assert line(source) == first
