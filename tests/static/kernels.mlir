// A layer of a perceptron: several kernels, which the program links.
module @static_kernels {
  func.func @layer(%x: tensor<5x16xf32>, %w: tensor<16x7xf32>) -> tensor<5xf32> {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<5x7xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<5x7xf32>) -> tensor<5x7xf32>
    %product = linalg.matmul ins(%x, %w : tensor<5x16xf32>, tensor<16x7xf32>) outs(%zeros : tensor<5x7xf32>) -> tensor<5x7xf32>
    %ends = util.optimization_barrier %product : tensor<5x7xf32>
    %sums = tensor.empty() : tensor<5xf32>
    %none = linalg.fill ins(%zero : f32) outs(%sums : tensor<5xf32>) -> tensor<5xf32>
    %sum = linalg.reduce ins(%ends : tensor<5x7xf32>) outs(%none : tensor<5xf32>) dimensions = [1]
      (%in: f32, %out: f32) {
        %positive = arith.maximumf %in, %zero : f32
        %next = arith.addf %positive, %out : f32
        linalg.yield %next : f32
      }
    return %sum : tensor<5xf32>
  }
}
