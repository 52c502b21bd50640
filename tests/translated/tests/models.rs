//! Every case of every model of tests/models, translated: the expected results, and the interpreter's bits and errors.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../../support/mod.rs"]
#[allow(dead_code, reason = "other packages use the rest")]
mod support;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use incarnate::{Module, Result};
use incarnate_runtime::bytecode::{Archive, Module as BytecodeFile};
use incarnate_runtime::hal::local::Loaders;
use incarnate_runtime::mapping::MappedFile;
use incarnate_runtime::vm::{BytecodeModule, Ledger, Limits};
use incarnate_translated_tests::{MODULES, REASSOCIATED, VARIANTS};
use support::cases::{self, Case, Model};
use support::compare;
use support::parallel;
use support::program::Instance;

/// The modes of a program's modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Interpreted,
    Translated,
    /// The model is translated, its imports are interpreted.
    Mixed,
    /// The model is interpreted, its imports are translated.
    MixedOtherwise,
    /// The model is translated and multiversioned for one set of target features, or for none.
    Variant(&'static str),
    /// The model is interpreted, with float reductions in any order.
    InterpretedReassociated,
    /// The model is translated, with float reductions in any order.
    Reassociated,
}

fn load(file: &Path, is_translated: bool) -> Result<Arc<dyn Module>> {
    if !is_translated {
        let contents = Arc::new(MappedFile::contents(file)?);
        return Ok(BytecodeModule::new(BytecodeFile::parse(Archive::new(contents)?)?.verify()?)?);
    }
    let key = cases::key(file);
    let row = MODULES.iter().find(|row| row.0 == key).unwrap_or_else(|| panic!("{key} is not translated"));
    Ok((row.1)())
}

fn instance(case: &Case, model: &Path, mode: Mode, device: &str, limits: Limits) -> Result<Instance> {
    let files = case.modules.iter().map(AsRef::as_ref).chain([model]);
    // Translated modules must contain all that they need: no interpreter runs their kernels.
    let loaders = match mode {
        Mode::Translated | Mode::Reassociated => Loaders::default(),
        _ => Loaders::all().reassociating(mode == Mode::InterpretedReassociated),
    };
    Instance::load_within(limits, files, &case.machine(device), loaders, &|file| {
        let is_model = file == model;
        if let (Mode::Variant(level), true) = (mode, is_model) {
            let key = cases::key(file);
            let row = VARIANTS.iter().find(|row| row.0 == key && row.1 == level);
            return Ok((row.unwrap_or_else(|| panic!("{key} is not translated for {level}")).2)());
        }
        if let (Mode::Reassociated, true) = (mode, is_model) {
            let key = cases::key(file);
            let row = REASSOCIATED.iter().find(|row| row.0 == key);
            return Ok((row.unwrap_or_else(|| panic!("{key} is not translated in any order")).1)());
        }
        load(
            file,
            matches!((mode, is_model), (Mode::Translated, _) | (Mode::Mixed, true) | (Mode::MixedOtherwise, false)),
        )
    })
}

/// Returns the outcome of a case: for each call its outputs, or its error with all locations.
fn outcomes(case: &Case, model: &Path, mode: Mode, device: &str) -> Vec<String> {
    let instance = match instance(case, model, mode, device, Limits::default()) {
        Ok(instance) => instance,
        Err(error) => return vec![format!("loading: {error}")],
    };
    let mut outcomes = Vec::new();
    for call in &case.calls {
        outcomes.push(match instance.call(&call.function, &call.inputs) {
            Ok(outputs) => match (compare::mismatch(call, &outputs), &call.fails) {
                (None, None) => format!("{outputs:?}"),
                (fault, fails) => format!("WRONG: {fault:?}, {fails:?}"),
            },
            // The depth of calls is bounded by different memory: the host's stack.
            Err(error) if call.fails.as_deref() == Some("RESOURCE_EXHAUSTED") => {
                format!("{} {:?}", error.code().name(), error.locations())
            }
            Err(error) if call.fails.as_deref() == Some(error.code().name()) => error.to_string(),
            Err(error) => format!("WRONG: {error}"),
        });
    }
    outcomes
}

#[test]
fn reassociated_cases_are_as_interpreted() {
    let (mut compared, mut differing) = (0, 0);
    for model in cases::models() {
        for (variant, case) in
            model.runs().filter(|(variant, _)| REASSOCIATED.iter().any(|row| row.0 == cases::key(variant)))
        {
            let of = |mode| outcomes(case, variant, mode, "local-sync");
            let (expected, in_order) = (of(Mode::InterpretedReassociated), of(Mode::Interpreted));
            assert_eq!(of(Mode::Reassociated), expected, "{} [{}]", variant.display(), case.name);
            assert!(!expected.iter().any(|outcome| outcome.starts_with("WRONG")), "{expected:?}");
            (compared, differing) = (compared + 1, differing + usize::from(expected != in_order));
        }
    }
    assert!(compared >= 2 && differing >= 1, "{compared} cases, of which {differing} differ from those in order");
}

/// Calls a function with every case of every model, on all cores. It returns how many comparisons it made, and what differed.
fn compare_all(compare: impl Fn(&Path, &Case) -> (usize, Vec<String>) + Sync) -> usize {
    let models = cases::models();
    let runs: Vec<(&PathBuf, &Case)> = models.iter().flat_map(Model::runs).collect();
    let found = Mutex::new((0, Vec::new()));
    parallel::for_each(&runs, |(variant, case)| {
        let (compared, faults) = compare(variant, case);
        let mut found = found.lock().expect("no comparison panicked");
        found.0 += compared;
        found.1.extend(faults);
    });
    let (compared, faults) = found.into_inner().expect("no comparison panicked");
    assert!(faults.is_empty(), "{} of {compared} cases:\n{}", faults.len(), faults.join("\n"));
    compared
}

#[test]
fn every_case_is_as_interpreted() {
    let modes = [
        (Mode::Translated, "local-sync"),
        (Mode::Translated, "local-task"),
        (Mode::Mixed, "local-sync"),
        (Mode::MixedOtherwise, "local-sync"),
    ];
    let compared = compare_all(|variant, case| {
        let expected = outcomes(case, variant, Mode::Interpreted, "local-sync");
        let fault = |(mode, device)| {
            let found = outcomes(case, variant, mode, device);
            let is_wrong = found.iter().any(|outcome| outcome.starts_with("WRONG") || outcome.starts_with("loading"));
            let file = variant.display();
            (found != expected || is_wrong)
                .then(|| format!("{file} [{}] {mode:?} on {device}: {found:?}, not {expected:?}", case.name))
        };
        (modes.len(), modes.into_iter().filter_map(fault).collect())
    });
    assert!(compared >= 100, "only {compared} cases were found");
}

/// What a case returns when all its calls are repeated, so that kernels read constants again.
fn repeated(case: &Case, model: &Path, mode: Mode, limits: Limits) -> Vec<String> {
    let instance = match instance(case, model, mode, "local-sync", limits) {
        Ok(instance) => instance,
        Err(error) => return vec![format!("loading: {error}")],
    };
    let calls = case.calls.iter().cycle().take(4 * case.calls.len());
    calls.map(|call| format!("{:?}", instance.call(&call.function, &call.inputs))).collect()
}

#[test]
fn constants_in_other_layouts_give_the_same_bits() {
    let compared = compare_all(|variant, case| {
        let (mut compared, mut faults) = (0, Vec::new());
        for mode in [Mode::Interpreted, Mode::Translated] {
            // Programs with limits have no layouts.
            let limits = Limits { ledger: Ledger::new(1 << 40, 1 << 40), ..Limits::default() };
            let expected = repeated(case, variant, mode, limits);
            let found = repeated(case, variant, mode, Limits::default());
            compared += found.len();
            if found != expected {
                faults.push(format!("{} [{}] {mode:?}: {found:?}, not {expected:?}", variant.display(), case.name));
            }
        }
        (compared, faults)
    });
    assert!(compared >= 400, "only {compared} calls were compared");
}

#[test]
fn all_variants_compute_the_same_bits() {
    let compared = compare_all(|variant, case| {
        let key = cases::key(variant);
        let (mut compared, mut faults) = (0, Vec::new());
        for (_, level, _) in VARIANTS.iter().filter(|row| row.0 == key) {
            let expected = outcomes(case, variant, Mode::Translated, "local-sync");
            let found = outcomes(case, variant, Mode::Variant(level), "local-sync");
            if found != expected {
                faults.push(format!("{key} [{}] for {level}: {found:?}, not {expected:?}", case.name));
            }
            compared += 1;
        }
        (compared, faults)
    });
    assert!(compared >= 40, "only {compared} cases were found");
}

#[test]
fn every_module_is_translated() {
    let names: Vec<&str> = MODULES.iter().map(|row| row.0).collect();
    assert!(names.contains(&"simple_mul/vmvx.vmfb") && names.len() >= 25, "{names:?}");
}
