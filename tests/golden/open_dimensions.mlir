// options: --propagate-in --propagate-out
// Dimension 0 of the constraint is open and takes x; dimension 1 is closed and stays whole.
module @open_dimensions {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.tanh %a : tensor<8x16xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{?}, {}]> : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}
