// Floating-point types of 16, 32 and 64 bits, and conversions between them.
func.func @widen(%a: tensor<8xf16>, %b: tensor<8xbf16>) -> tensor<8xf64> {
  %x = arith.extf %a : tensor<8xf16> to tensor<8xf64>
  %y = arith.extf %b : tensor<8xbf16> to tensor<8xf64>
  %product = arith.mulf %x, %y : tensor<8xf64>
  return %product : tensor<8xf64>
}

func.func @narrow(%x: tensor<8xf32>) -> (tensor<8xf16>, tensor<8xbf16>) {
  %a = arith.truncf %x : tensor<8xf32> to tensor<8xf16>
  %b = arith.truncf %x : tensor<8xf32> to tensor<8xbf16>
  return %a, %b : tensor<8xf16>, tensor<8xbf16>
}

func.func @matmul_f16(%a: tensor<6x10xf16>, %b: tensor<10x4xf16>) -> tensor<6x4xf32> {
  %nought = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<6x4xf32>
  %filled = linalg.fill ins(%nought : f32) outs(%empty : tensor<6x4xf32>) -> tensor<6x4xf32>
  %product = linalg.matmul ins(%a, %b : tensor<6x10xf16>, tensor<10x4xf16>)
                           outs(%filled : tensor<6x4xf32>) -> tensor<6x4xf32>
  return %product : tensor<6x4xf32>
}

func.func @polynomial_f64(%x: tensor<5xf64>) -> tensor<5xf64> {
  %c0 = arith.constant dense<1.0000000001> : tensor<5xf64>
  %c1 = arith.constant dense<-0.3333333333333333> : tensor<5xf64>
  %p = arith.mulf %x, %c1 : tensor<5xf64>
  %q = arith.addf %p, %c0 : tensor<5xf64>
  %r = arith.divf %q, %x : tensor<5xf64>
  return %r : tensor<5xf64>
}
