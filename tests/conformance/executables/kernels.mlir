// Kernels of the conformance cases, an element to a workgroup. `build` compiles them for each format. All have two constants, as compiler
// 3.13.0 emits one block of push constants for all functions of an executable.

#transform = #hal.pipeline.layout<constants = 2, bindings = [
  #hal.pipeline.binding<storage_buffer>,
  #hal.pipeline.binding<storage_buffer>
]>
#output = #hal.pipeline.layout<constants = 2, bindings = [#hal.pipeline.binding<storage_buffer>]>

hal.executable.source public @kernels {
  hal.executable.export public @scale_and_offset ordinal(0) layout(#transform) count(%device: !hal.device) -> (index, index, index) {
    %most = arith.constant 4096 : index
    %one = arith.constant 1 : index
    hal.return %most, %one, %one : index, index, index
  }
  hal.executable.export public @write_ids ordinal(1) layout(#output) count(%device: !hal.device) -> (index, index, index) {
    %most = arith.constant 4096 : index
    %one = arith.constant 1 : index
    hal.return %most, %one, %one : index, index, index
  }
  hal.executable.export public @write_counts ordinal(2) layout(#output) count(%device: !hal.device) -> (index, index, index) {
    %most = arith.constant 4096 : index
    %one = arith.constant 1 : index
    hal.return %most, %one, %one : index, index, index
  }

  builtin.module {
    // out[id] = in[id] * scale + offset
    func.func @scale_and_offset() {
      %scale = hal.interface.constant.load layout(#transform) ordinal(0) : i32
      %offset = hal.interface.constant.load layout(#transform) ordinal(1) : i32
      %in = hal.interface.binding.subspan layout(#transform) binding(0) : memref<4096xi32>
      %out = hal.interface.binding.subspan layout(#transform) binding(1) : memref<4096xi32>
      %id = hal.interface.workgroup.id[0] : index
      %value = memref.load %in[%id] : memref<4096xi32>
      %scaled = arith.muli %value, %scale : i32
      %moved = arith.addi %scaled, %offset : i32
      memref.store %moved, %out[%id] : memref<4096xi32>
      return
    }

    // out[id] = id
    func.func @write_ids() {
      %out = hal.interface.binding.subspan layout(#output) binding(0) : memref<4096xi32>
      %id = hal.interface.workgroup.id[0] : index
      %value = arith.index_cast %id : index to i32
      memref.store %value, %out[%id] : memref<4096xi32>
      return
    }

    // out[0..3] = 3, 1, 1: the counts of a dispatch
    func.func @write_counts() {
      %out = hal.interface.binding.subspan layout(#output) binding(0) : memref<4096xi32>
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %two = arith.constant 2 : index
      %three = arith.constant 3 : i32
      %single = arith.constant 1 : i32
      memref.store %three, %out[%zero] : memref<4096xi32>
      memref.store %single, %out[%one] : memref<4096xi32>
      memref.store %single, %out[%two] : memref<4096xi32>
      return
    }
  }
}
