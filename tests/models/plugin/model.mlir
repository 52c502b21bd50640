// A kernel calls a function that an executable plugin provides.
module @plugin {
  stream.executable private @executable {
    stream.executable.export public @offset_all workgroups() -> (index, index, index) {
      %c1 = arith.constant 1 : index
      stream.return %c1, %c1, %c1 : index, index, index
    }
    builtin.module {
      func.func private @incarnate_test_offset(%in: memref<f32>, %out: memref<f32>, %extent: index) attributes {
        llvm.bareptr = true
      }
      func.func @offset_all(%in: !stream.binding, %out: !stream.binding) {
        %c0 = arith.constant 0 : index
        %c4 = arith.constant 4 : index
        %in_view = stream.binding.subspan %in[%c0] : !stream.binding -> memref<4xf32>
        %out_view = stream.binding.subspan %out[%c0] : !stream.binding -> memref<4xf32>
        %in_base, %in_offset, %in_size, %in_stride = iree_codegen.extract_strided_metadata %in_view
            : memref<4xf32> -> memref<f32>, index, index, index
        %out_base, %out_offset, %out_size, %out_stride = iree_codegen.extract_strided_metadata %out_view
            : memref<4xf32> -> memref<f32>, index, index, index
        func.call @incarnate_test_offset(%in_base, %out_base, %c4) : (memref<f32>, memref<f32>, index) -> ()
        return
      }
    }
  }
  func.func @offset(%values: tensor<4xf32>) -> tensor<4xf32> {
    %0 = flow.dispatch @executable::@offset_all(%values) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = arith.addf %0, %values : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
