"""What is read out of, and written into, StableHLO text."""

from __future__ import annotations

import pytest

from xla_migrate.target.compile import matching, mlir

# Of torch_xla: every tensor that takes part is among the results, changed or not.
LIVE = """module @IrToHlo.12 attributes {mhlo.is_dynamic = false} {
  func.func @main(%arg0: tensor<4x8xf32>, %arg1: tensor<8xf32> {mhlo.sharding = "{devices=[2]0,1}"}, %arg2: tensor<i64>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i64>) {
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<8xf32>
    %0 = stablehlo.multiply %arg1, %cst : tensor<8xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    %2 = stablehlo.add %arg0, %1 : tensor<4x8xf32>
    return %2, %arg1, %0, %arg2 : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<i64>
  }
}
"""


def test_main_is_read() -> None:
    graph = mlir.parse(LIVE)
    assert [name for name, _, _ in graph.arguments] == ["%arg0", "%arg1", "%arg2"]
    assert graph.arguments[1][1:] == ("tensor<8xf32>", 'mhlo.sharding = "{devices=[2]0,1}"')
    assert [value for value, _, _ in graph.results] == ["%2", "%arg1", "%0", "%arg2"]
    assert graph.text.startswith("module @graph attributes")


def test_what_is_handed_back_unchanged_is_no_result() -> None:
    graph = mlir.computed(LIVE)
    assert [value for value, _, _ in graph.results] == ["%2", "%0"]
    assert "%arg2" not in graph.text
    assert graph.given == 3
    assert graph.kept == [0, 1]
    assert "    return %2, %0 : tensor<4x8xf32>, tensor<8xf32>\n" in graph.text
    assert 'mhlo.sharding = "{devices=[2]0,1}"' in graph.text
    assert mlir.computed(graph.text).text == graph.text


def test_nothing_computed_is_no_graph() -> None:
    text = LIVE.replace("return %2, %arg1, %0, %arg2", "return %arg0, %arg1, %arg1, %arg2")
    assert mlir.computed(text).results == []
    assert mlir.computed("").results == []


def test_a_name_of_the_module_makes_no_other_graph() -> None:
    assert mlir.computed(LIVE).key == mlir.computed(LIVE.replace("IrToHlo.12", "IrToHlo.99")).key


def test_where_an_argument_stands_that_is_left_out_makes_no_other_graph() -> None:
    # torch_xla numbers the inputs of a sharded step now in one order, now in another.
    last = """module @m {
  func.func @main(%arg0: tensor<2xf32>, %arg1: tensor<i64>) -> (tensor<2xf32>, tensor<i64>) {
    %0 = stablehlo.tanh %arg0 : tensor<2xf32>
    return %0, %arg1 : tensor<2xf32>, tensor<i64>
  }
}
"""
    first = """module @m {
  func.func @main(%arg0: tensor<i64>, %arg1: tensor<2xf32>) -> (tensor<i64>, tensor<2xf32>) {
    %0 = stablehlo.tanh %arg1 : tensor<2xf32>
    return %arg0, %0 : tensor<i64>, tensor<2xf32>
  }
}
"""
    assert mlir.computed(last).kept == [0]
    assert mlir.computed(first).kept == [1]
    assert mlir.computed(first).key == mlir.computed(last).key


def test_donors_are_numbered_as_given() -> None:
    dropped_first = LIVE.replace("%2 = stablehlo.add %arg0, %1", "%2 = stablehlo.add %1, %1")
    graph = mlir.computed(dropped_first).with_donors([1, 0])
    assert [name for name, _, _ in graph.arguments] == ["%arg0"]
    assert (
        '%arg0: tensor<8xf32> {mhlo.sharding = "{devices=[2]0,1}", jax.buffer_donor = true}'
        in graph.text
    )


def test_one_result_without_brackets() -> None:
    text = """module @m {
  func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""
    assert mlir.computed(text).results == [("%0", "tensor<2xf32>", "")]


@pytest.mark.parametrize(
    ("sharding", "count"),
    [
        ("", 1),
        ("{replicated}", 1),
        ("{devices=[4,1]0,1,2,3}", 4),
        ("{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}", 2),
    ],
)
def test_parts(sharding: str, count: int) -> None:
    assert mlir.parts(sharding) == count


def test_shapes() -> None:
    assert mlir.shape_of("tensor<8x32xbf16>") == ((8, 32), "bf16")
    assert mlir.shape_of("tensor<i64>") == ((), "i64")


def test_graphs_that_differ_only_in_sizes_share_a_skeleton() -> None:
    other = LIVE.replace("4x8xf32", "6x8xf32").replace("5.000000e-01", "2.500000e-01")
    assert mlir.skeleton(LIVE) == mlir.skeleton(other)
    assert mlir.skeleton(LIVE) != mlir.skeleton(LIVE.replace("stablehlo.add", "stablehlo.subtract"))
    assert mlir.skeleton(LIVE) != mlir.skeleton(LIVE.replace("4x8xf32", "4x8xbf16"))
    assert mlir.skeleton(LIVE) != mlir.skeleton(LIVE.replace("4x8xf32", "1x4x8xf32"))


PART = """module @m {
  func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<4x8xf32>) -> (tensor<4x8xf32>) {
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<8xf32>
    %7 = stablehlo.multiply %arg0, %cst : tensor<8xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    %9 = stablehlo.add %arg1, %8 : tensor<4x8xf32>
    return %9 : tensor<4x8xf32>
  }
}
"""


def test_arguments_are_found_again_in_a_larger_graph() -> None:
    assert matching.arguments(mlir.computed(PART), mlir.computed(LIVE)) == {0: 1, 1: 0}


def test_results_that_look_alike_are_left_out_where_one_graph_has_more() -> None:
    twins = """module @m {
  func.func @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %0 = stablehlo.tanh %arg0 : tensor<2xf32>
    %1 = stablehlo.tanh %arg1 : tensor<2xf32>
    return %0, %1 : tensor<2xf32>, tensor<2xf32>
  }
}
"""
    one = """module @m {
  func.func @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>) {
    %0 = stablehlo.tanh %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""
    assert matching.arguments(mlir.computed(one), mlir.computed(twins)) == {}
    assert matching.arguments(mlir.computed(twins), mlir.computed(twins)) == {0: 0, 1: 1}


def test_statements_with_several_values_and_regions() -> None:
    text = """module @m {
  func.func @main(%arg0: tensor<2xui64>, %arg1: tensor<4xf32>) -> (tensor<4xui32>, tensor<4xf32>) {
    %output_state, %output = stablehlo.rng_bit_generator %arg0, algorithm =  DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    %0:2 = "stablehlo.sort"(%arg1, %output) ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>):
      %1 = stablehlo.compare  LT, %arg2, %arg3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }) : (tensor<4xf32>, tensor<4xui32>) -> (tensor<4xf32>, tensor<4xui32>)
    return %output, %0#0 : tensor<4xui32>, tensor<4xf32>
  }
}
"""
    graph = mlir.computed(text)
    assert matching.arguments(graph, graph) == {0: 0, 1: 1}
