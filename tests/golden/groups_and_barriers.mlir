// options: --propagate-in --propagate-out
// The group brings b's sharding to the iota; nothing passes the barrier.
module @groups_and_barriers {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%b: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    %0 = stablehlo.iota dim = 0 : tensor<8x16xf32>
    sdy.sharding_group %0 group_id=1 : tensor<8x16xf32>
    %1 = stablehlo.tanh %b : tensor<8x16xf32>
    sdy.sharding_group %1 group_id=1 : tensor<8x16xf32>
    %2 = sdy.propagation_barrier %1 allowed_direction=NONE : tensor<8x16xf32>
    %3 = stablehlo.exponential %2 : tensor<8x16xf32>
    return %0, %3 : tensor<8x16xf32>, tensor<8x16xf32>
  }
}
