// options: --windowed-einsum=always
// Uneven: what lies beyond the 10 rows of b is masked once, before it circulates.
module @windowed_contraction {
  sdy.mesh @mesh = <["x"=3]>
  func.func public @main(%a: tensor<6x10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<10x8xf32>) -> (tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %b = sdy.sharding_constraint %w <@mesh, [{"x"}, {}]> : tensor<10x8xf32>
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<6x10xf32>, tensor<10x8xf32>) -> tensor<6x8xf32>
    return %0 : tensor<6x8xf32>
  }
}
