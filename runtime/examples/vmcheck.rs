#![allow(missing_docs, clippy::unwrap_used)]
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use incarnate_runtime::bytecode::{Contents, VerifiedModule};
use incarnate_runtime::vm::*;
use incarnate_runtime::{Result, native_functions};
#[derive(Debug, Default)]
struct Y { left: AtomicI32, acc: AtomicI32 }
impl ModuleState for Y {}
impl Y {
    fn step(&self) -> Outcome<i32> {
        if self.left.load(Relaxed) > 0 {
            self.acc.fetch_add(1, Relaxed);
            self.left.fetch_sub(1, Relaxed);
            return Outcome::Yield(Box::new(()));
        }
        Outcome::Done(self.acc.load(Relaxed))
    }
    fn yield_n(&self, _: &mut Caller<'_>, arg: i32, n: i32) -> Result<Outcome<i32>> {
        self.acc.store(arg, Relaxed); self.left.store(n, Relaxed);
        Ok(self.step())
    }
    fn sum(&self, _: &mut Caller<'_>, v: Span<i32>, n: i32) -> Result<Outcome<i32>> {
        self.acc.store(v.iter().sum(), Relaxed); self.left.store(n, Relaxed);
        Ok(self.step())
    }
    fn resume(&self, _: &mut Caller<'_>, _: Box<()>) -> Result<Outcome<i32>> { Ok(self.step()) }
}
fn main() {
    let (mut pass, mut fail) = (0, 0);
    for path in std::env::args().skip(1) {
        let module = BytecodeModule::new(match VerifiedModule::load(Arc::new(Contents::read(path.as_ref()).unwrap())) {
            Ok(m) => m, Err(e) => { println!("{path}: {e}"); fail += 1; continue }
        }).unwrap();
        let y = NativeModule::new("yieldable_test", 0, || Ok(Y::default()), native_functions! {
            "yield_n" => Y::yield_n, resume Y::resume,
            "yield_variadic_sum" => Y::sum, resume Y::resume,
        });
        let program = match Program::link(vec![Arc::new(y), module.clone()]) { Ok(p) => p, Err(e) => { println!("{path}: {e}"); fail += 1; continue } };
        let context = match Context::new(program, Limits::default()) { Ok(p) => p, Err(e) => { println!("{path}: {e}"); fail += 1; continue } };
        for e in 0..module.signature().export_count as u32 {
            let f = context.export(1, e).unwrap();
            if f.name().starts_with("__") || !f.arguments().is_empty() { continue }
            let r = f.call(&[]);
            let ok = r.is_ok() != f.name().starts_with("fail_");
            if ok { pass += 1 } else { fail += 1; println!("{path} {} {:?}", f.name(), r) }
        }
    }
    println!("{pass} passed, {fail} failed");
}
