// options: --islands 0,0,0,0,1,1,1,1
// A sum over all devices goes across the islands in parts, padded to four; one of a few bytes goes at once.
module @island_steps {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<33x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x", "y"}]>}, %b: tensor<64x41xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> (tensor<33x41xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<41xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<33x64xf32>, tensor<64x41xf32>) -> tensor<33x41xf32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.reduce(%b init: %least) applies stablehlo.maximum across dimensions = [0] : (tensor<64x41xf32>, tensor<f32>) -> tensor<41xf32>
    return %0, %1 : tensor<33x41xf32>, tensor<41xf32>
  }
}
