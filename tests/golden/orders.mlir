// The result lies on the devices in another order: one permute at the boundary.
module @orders {
  sdy.mesh @plain = <["x"=2, "y"=2]>
  sdy.mesh @mixed = <["a"=2, "b"=2], device_ids=[1, 0, 2, 3]>
  func.func public @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@plain, [{"x"}, {"y"}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mixed, [{"a"}, {"b"}]>}) {
    %0 = stablehlo.tanh %a : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
