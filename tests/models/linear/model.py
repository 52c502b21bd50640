"""Layers as PyTorch stores their weights, in the dialect in which its importer writes them: a product with a matrix by columns, a
convolution of maps of 7 x 7, and sums of their rows. Kernels that read such constants again keep them in another layout."""

from reference import weights


def constant(array) -> str:
    shape = "x".join(map(str, array.shape))
    # Bytes in memory, the first element first.
    return f'arith.constant dense<"0x{array.tobytes().hex().upper()}"> : tensor<{shape}xf32>'


def mlir():
    matrix, filters = weights()
    (columns, sums), (outputs, inputs, *_) = matrix.shape, filters.shape
    return f"""
module @module {{
  func.func @linear(%x: tensor<1x{sums}xf32>, %maps: tensor<1x{inputs}x9x9xf32>)
      -> (tensor<1x{columns}xf32>, tensor<1x{outputs}xf32>) {{
    %zero = arith.constant 0.0 : f32
    %matrix = {constant(matrix)}
    %filters = {constant(filters)}
    %y_empty = tensor.empty() : tensor<1x{columns}xf32>
    %y_zero = linalg.fill ins(%zero : f32) outs(%y_empty : tensor<1x{columns}xf32>) -> tensor<1x{columns}xf32>
    %y = linalg.generic {{
        indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
        iterator_types = ["parallel", "parallel", "reduction"]
      }} ins(%x, %matrix : tensor<1x{sums}xf32>, tensor<{columns}x{sums}xf32>) outs(%y_zero : tensor<1x{columns}xf32>) {{
    ^bb0(%a: f32, %b: f32, %c: f32):
      %product = arith.mulf %a, %b : f32
      %sum = arith.addf %c, %product : f32
      linalg.yield %sum : f32
    }} -> tensor<1x{columns}xf32>
    %maps_empty = tensor.empty() : tensor<1x{outputs}x7x7xf32>
    %maps_zero = linalg.fill ins(%zero : f32) outs(%maps_empty : tensor<1x{outputs}x7x7xf32>)
      -> tensor<1x{outputs}x7x7xf32>
    %convolved = linalg.conv_2d_nchw_fchw {{dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>}}
      ins(%maps, %filters : tensor<1x{inputs}x9x9xf32>, tensor<{outputs}x{inputs}x3x3xf32>)
      outs(%maps_zero : tensor<1x{outputs}x7x7xf32>) -> tensor<1x{outputs}x7x7xf32>
    %sums_empty = tensor.empty() : tensor<1x{outputs}xf32>
    %sums_zero = linalg.fill ins(%zero : f32) outs(%sums_empty : tensor<1x{outputs}xf32>) -> tensor<1x{outputs}xf32>
    %sums = linalg.generic {{
        indexing_maps = [affine_map<(n, c, y, x) -> (n, c, y, x)>, affine_map<(n, c, y, x) -> (n, c)>],
        iterator_types = ["parallel", "parallel", "reduction", "reduction"]
      }} ins(%convolved : tensor<1x{outputs}x7x7xf32>) outs(%sums_zero : tensor<1x{outputs}xf32>) {{
    ^bb0(%a: f32, %c: f32):
      %sum = arith.addf %c, %a : f32
      linalg.yield %sum : f32
    }} -> tensor<1x{outputs}xf32>
    return %y, %sums : tensor<1x{columns}xf32>, tensor<1x{outputs}xf32>
  }}
}}
"""
