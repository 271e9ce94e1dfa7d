// options: --propagate-out
// Both want dimension 0 of the sum: b comes first by its priority, and a is resharded.
module @priorities {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, {}]>}, %b: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}p0, {}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.add %a, %b : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
