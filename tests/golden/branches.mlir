// options: --propagate-out
// Both branches give what the result is wanted as.
module @branches {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%which: tensor<i32>, %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x16xf32> {
    %0 = "stablehlo.case"(%which) ({
      %1 = stablehlo.tanh %x : tensor<8x16xf32>
      stablehlo.return %1 : tensor<8x16xf32>
    }, {
      %2 = stablehlo.iota dim = 1 : tensor<8x16xf32>
      stablehlo.return %2 : tensor<8x16xf32>
    }) : (tensor<i32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
