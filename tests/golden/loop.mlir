// options: --propagate-out
// The state of a loop takes the sharding of its argument; the call inside is inlined.
module @loop {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<8x16xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %five = stablehlo.constant dense<5> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %h = %x) : tensor<i32>, tensor<8x16xf32>
      cond {
        %c = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %n = stablehlo.add %i, %one : tensor<i32>
        %p = func.call @layer(%h, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
        stablehlo.return %n, %p : tensor<i32>, tensor<8x16xf32>
      }
    return %0#1 : tensor<8x16xf32>
  }
  func.func private @layer(%h: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
    %0 = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %1 = stablehlo.tanh %0 : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}
