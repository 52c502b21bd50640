//! The functions of the native module `vmvx`, which its table and that of importable functions are derived from.

/// Invokes a macro with the functions of `vmvx` 0.0, after the macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_vmvx_0_0 {
    ($callback:ident $($before:tt)*) => {
        $callback! { $($before)*
            ("abs.2d.f32", abs_2d_f32, "0rIIIrIIIII_v")
            ("add.2d.f32", add_2d_f32, "0rIIIrIIIrIIIII_v")
            ("add.2d.i32", add_2d_i32, "0rIIIrIIIrIIIII_v")
            ("and.2d.i32", and_2d_i32, "0rIIIrIIIrIIIII_v")
            ("ceil.2d.f32", ceil_2d_f32, "0rIIIrIIIII_v")
            ("copy.2d.x16", copy_2d_x16, "0rIIIrIIIII_v")
            ("copy.2d.x32", copy_2d_x32, "0rIIIrIIIII_v")
            ("copy.2d.x64", copy_2d_x64, "0rIIIrIIIII_v")
            ("copy.2d.x8", copy_2d_x8, "0rIIIrIIIII_v")
            ("ctlz.2d.i32", ctlz_2d_i32, "0rIIIrIIIII_v")
            ("div.2d.f32", div_2d_f32, "0rIIIrIIIrIIIII_v")
            ("divs.2d.i32", divs_2d_i32, "0rIIIrIIIrIIIII_v")
            ("divu.2d.i32", divu_2d_i32, "0rIIIrIIIrIIIII_v")
            ("exp.2d.f32", exp_2d_f32, "0rIIIrIIIII_v")
            ("fill.2d.x32", fill_2d_x32, "0irIIII_v")
            ("floor.2d.f32", floor_2d_f32, "0rIIIrIIIII_v")
            ("log.2d.f32", log_2d_f32, "0rIIIrIIIII_v")
            ("mmt4d", mmt4d, "0rIIrIIrIIIIIiiii_v")
            ("mul.2d.f32", mul_2d_f32, "0rIIIrIIIrIIIII_v")
            ("mul.2d.i32", mul_2d_i32, "0rIIIrIIIrIIIII_v")
            ("neg.2d.f32", neg_2d_f32, "0rIIIrIIIII_v")
            ("or.2d.i32", or_2d_i32, "0rIIIrIIIrIIIII_v")
            ("pack", pack, "0rIIIrIIIIIIIIIIi_v")
            ("query_tile_sizes.2d", query_tile_sizes_2d, "0IIi_II")
            ("rsqrt.2d.f32", rsqrt_2d_f32, "0rIIIrIIIII_v")
            ("shl.2d.i32", shl_2d_i32, "0rIIIrIIIrIIIII_v")
            ("shrs.2d.i32", shrs_2d_i32, "0rIIIrIIIrIIIII_v")
            ("shru.2d.i32", shru_2d_i32, "0rIIIrIIIrIIIII_v")
            ("sub.2d.f32", sub_2d_f32, "0rIIIrIIIrIIIII_v")
            ("sub.2d.i32", sub_2d_i32, "0rIIIrIIIrIIIII_v")
            ("unpack", unpack, "0rIIIrIIIIIIIIIi_v")
            ("xor.2d.i32", xor_2d_i32, "0rIIIrIIIrIIIII_v")
        }
    };
}
