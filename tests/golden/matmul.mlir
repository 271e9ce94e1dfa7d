// options: --mesh x=2,y=4 --in "[{x},{y}] [{y},{}]" --out "[{x},{}]"
module @matmul {
  func.func public @main(%a: tensor<16x32xf32>, %b: tensor<32x24xf32>) -> tensor<16x24xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x24xf32>) -> tensor<16x24xf32>
    return %0 : tensor<16x24xf32>
  }
}
