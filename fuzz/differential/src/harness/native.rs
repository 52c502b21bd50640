//! The native module that programs import: functions of many conventions, which record their calls.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicI64;

use incarnate_runtime::vm::{Buffer, Caller, ModuleState, NativeModule, Outcome, Ref, Span};
use incarnate_runtime::{Error, Result, StatusCode, native_functions};

use super::outcome::{Log, describe};
use super::probe::Probe;

/// Name of the module.
pub const NAME: &str = "harness";

/// The module's state.
#[derive(Debug)]
struct State {
    log: Log,
    live: Arc<AtomicI64>,
    kept: Mutex<Vec<Ref>>,
}

impl ModuleState for State {}

type Call<'a, 'b> = &'a mut Caller<'b>;

impl State {
    fn note(&self, name: &str, values: std::fmt::Arguments<'_>) {
        self.log.note(&format!("call {name}({values})"));
    }

    fn nothing(&self, _: Call<'_, '_>) -> Result<()> {
        self.note("nothing", format_args!(""));
        Ok(())
    }

    fn scalars(&self, _: Call<'_, '_>, a: i32, b: i64, c: f32, d: f64) -> Result<(f64, i32, i64, f32)> {
        self.note("scalars", format_args!("{a}, {b}, {:x}, {:x}", c.to_bits(), d.to_bits()));
        Ok((d, a.wrapping_add(1), b ^ 0x55, c))
    }

    fn one(&self, _: Call<'_, '_>, a: i32) -> Result<i32> {
        self.note("one", format_args!("{a}"));
        Ok(a.rotate_left(3))
    }

    fn floats(&self, _: Call<'_, '_>, a: f32, b: f64) -> Result<f64> {
        self.note("floats", format_args!("{:x}, {:x}", a.to_bits(), b.to_bits()));
        Ok(b)
    }

    #[allow(clippy::too_many_arguments, reason = "a convention with many arguments")]
    fn many(
        &self,
        _: Call<'_, '_>,
        a: i32,
        b: Ref,
        c: i64,
        d: f64,
        e: Ref,
        f: f32,
        g: i32,
        h: i64,
        i: Ref,
        j: i32,
    ) -> Result<(Ref, i64, Ref, i32)> {
        let refs = (describe(&b, 1), describe(&e, 1), describe(&i, 1));
        self.note("many", format_args!("{a}, {c}, {:x}, {:x}, {g}, {h}, {j}, {refs:?}", d.to_bits(), f.to_bits()));
        Ok((i, c.wrapping_sub(h), b, g ^ j))
    }

    fn keep(&self, _: Call<'_, '_>, reference: Ref) -> Result<()> {
        self.note("keep", format_args!("{}", describe(&reference, 1)));
        let mut kept = self.kept.lock().map_err(|_| Error::internal("poisoned"))?;
        if kept.len() < 8 {
            kept.push(reference);
        }
        Ok(())
    }

    fn kept(&self, _: Call<'_, '_>) -> Result<Ref> {
        let last = self.kept.lock().map_err(|_| Error::internal("poisoned"))?.pop().unwrap_or_default();
        self.note("kept", format_args!(""));
        Ok(last)
    }

    fn pass(&self, _: Call<'_, '_>, first: Ref, second: Ref) -> Result<Ref> {
        self.note("pass", format_args!("{}, {}", describe(&first, 1), describe(&second, 1)));
        Ok(if first.is_null() { second } else { first })
    }

    fn make(&self, _: Call<'_, '_>, id: i32) -> Result<Arc<Probe>> {
        self.note("make", format_args!("{id}"));
        Ok(Probe::new(id, &self.live))
    }

    fn look(&self, _: Call<'_, '_>, probe: &Probe) -> Result<i32> {
        self.note("look", format_args!("{}", probe.id()));
        Ok(probe.id())
    }

    fn take(&self, _: Call<'_, '_>, probe: Option<Arc<Probe>>, other: i64) -> Result<i64> {
        self.note("take", format_args!("{:?}, {other}", probe.as_ref().map(|probe| probe.id())));
        Ok(other.wrapping_add(i64::from(probe.is_some())))
    }

    fn bytes(&self, _: Call<'_, '_>, buffer: &Buffer, value: i32) -> Result<i64> {
        let sum = buffer.to_vec()?.iter().map(|&byte| i64::from(byte)).sum();
        self.note("bytes", format_args!("{sum}, {value}"));
        if buffer.is_mutable() && buffer.length() > 0 {
            buffer.store::<u8>(0, value as u8)?;
        }
        Ok(sum)
    }

    fn sum(&self, _: Call<'_, '_>, values: Span<i32>) -> Result<i64> {
        self.note("sum", format_args!("{:?}", &*values));
        Ok(values.iter().map(|&value| i64::from(value)).sum())
    }

    fn pairs(&self, _: Call<'_, '_>, a: i32, values: Span<(Ref, i64)>, b: f32) -> Result<i32> {
        let mut text = String::new();
        for (reference, number) in values.iter() {
            let _ = write!(text, "({}, {number}) ", describe(reference, 1));
        }
        self.note("pairs", format_args!("{a}, {text}, {:x}", b.to_bits()));
        Ok(values.len() as i32)
    }

    fn nested(&self, _: Call<'_, '_>, a: i64, values: Span<(i32, Span<i64>)>, b: Ref) -> Result<(Ref, i64)> {
        let mut total = a;
        let mut text = String::new();
        for (number, inner) in values.iter() {
            let _ = write!(text, "({number}, {:?}) ", &**inner);
            total = inner.iter().fold(total, |total, &value| total.wrapping_mul(31).wrapping_add(value));
        }
        self.note("nested", format_args!("{a}, {text}, {}", describe(&b, 1)));
        Ok((b, total))
    }

    fn references(&self, _: Call<'_, '_>, values: Span<Ref>) -> Result<Ref> {
        let texts: Vec<String> = values.iter().map(|reference| describe(reference, 1)).collect();
        self.note("references", format_args!("{texts:?}"));
        Ok(values.last().cloned().unwrap_or_default())
    }

    fn failing(&self, _: Call<'_, '_>, code: i32) -> Result<i32> {
        self.note("failing", format_args!("{code}"));
        match StatusCode::from_raw((code & 0x1F) as u32) {
            Some(status) if code & 0x60 == 0 => Err(Error::new(status, format!("failing was told {code}"))),
            _ => Ok(code),
        }
    }

    fn yielding(&self, _: Call<'_, '_>, times: i32, kept: Ref) -> Result<Outcome<(i32, Ref)>> {
        self.note("yielding", format_args!("{times}, {}", describe(&kept, 1)));
        self.go_on(Box::new((times & 3, kept)))
    }

    fn yielding_again(&self, _: Call<'_, '_>, state: Box<(i32, Ref)>) -> Result<Outcome<(i32, Ref)>> {
        self.note("yielding again", format_args!("{}", state.0));
        self.go_on(state)
    }

    fn go_on(&self, mut state: Box<(i32, Ref)>) -> Result<Outcome<(i32, Ref)>> {
        state.0 -= 1;
        match state.0 {
            ..0 => Ok(Outcome::Done((state.0, state.1))),
            _ => Ok(Outcome::Yield(state)),
        }
    }

    fn yielding_span(&self, _: Call<'_, '_>, values: Span<i32>, times: i64) -> Result<Outcome<i64>> {
        self.note("yielding span", format_args!("{:?}, {times}", &*values));
        let sum = values.iter().map(|&value| i64::from(value)).sum::<i64>();
        match times & 1 {
            0 => Ok(Outcome::Done(sum)),
            _ => Ok(Outcome::Yield(Box::new(sum))),
        }
    }

    fn yielding_span_again(&self, _: Call<'_, '_>, sum: Box<i64>) -> Result<Outcome<i64>> {
        self.note("yielding span again", format_args!("{sum}"));
        match *sum % 7 {
            3 => Err(Error::aborted("failed after it was resumed")),
            _ => Ok(Outcome::Done(*sum)),
        }
    }
}

/// Creates the native module. Its functions record their calls in `log`; `live` counts the probes.
pub fn module(log: Log, live: Arc<AtomicI64>) -> Arc<dyn incarnate_runtime::vm::Module> {
    let state = move || Ok(State { log: log.clone(), live: live.clone(), kept: Mutex::default() });
    Arc::new(NativeModule::new(
        NAME,
        0,
        state,
        native_functions! {
            "nothing" => State::nothing,
            "scalars" => State::scalars,
            "one" => State::one,
            "floats" => State::floats,
            "many" => State::many,
            "keep" => State::keep,
            "kept" => State::kept,
            "pass" => State::pass,
            "make" => State::make,
            "look" => State::look,
            "take" => State::take,
            "bytes" => State::bytes,
            "sum" => State::sum,
            "pairs" => State::pairs,
            "nested" => State::nested,
            "references" => State::references,
            "failing" => State::failing,
            "yielding" => State::yielding, resume State::yielding_again,
            "yielding_span" => State::yielding_span, resume State::yielding_span_again,
        },
    ))
}
