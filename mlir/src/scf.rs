//! Structured control flow.

use crate::builder::{Builder, Region, Value, list};
use crate::types::{Element, Type};

impl Builder {
    /// `scf.if`: each region with the values that it yields, whose types are `types`.
    pub fn scf_if(
        &mut self,
        condition: Value,
        types: &[Type],
        mut then: (Region, Vec<Value>),
        mut otherwise: (Region, Vec<Value>),
    ) -> Vec<Value> {
        if *self.type_of(condition) != Type::Scalar(Element::I1) {
            self.fail(format!("scf.if on {}", self.type_of(condition)));
        }
        for (region, values) in [&mut then, &mut otherwise] {
            self.check_types("scf.yield", values, types);
            self.append_to(region, |b| {
                let values = b.merged(values, &[], Builder::may_be_same);
                let typed = b.typed(&values);
                b.line(&format!("scf.yield {typed}"));
            });
        }
        let results = if types.is_empty() { String::new() } else { format!(" -> ({})", list(types)) };
        self.with_regions(
            types,
            &format!("scf.if {condition}{results}"),
            &[("", &then.0), (" else ", &otherwise.0)],
            "",
        )
    }

    /// `scf.for` from `bounds.0` to `bounds.1`, which is excluded, by `bounds.2`. The region has the induction variable and the carried
    /// values as arguments, and yields the next of the carried values.
    pub fn scf_for(
        &mut self,
        bounds: (Value, Value, Value),
        induction: Value,
        carried: &[Value],
        initial: &[Value],
        mut body: (Region, Vec<Value>),
    ) -> Vec<Value> {
        let types: Vec<Type> = carried.iter().map(|value| self.type_of(*value).clone()).collect();
        self.check_types("scf.for", initial, &types);
        let initial = &self.merged(initial, &[], Builder::may_be_same);
        self.yield_from(&mut body.0, &body.1, &types, carried);
        let (low, high, step) = bounds;
        let mut text = format!("scf.for {induction} = {low} to {high} step {step}");
        if !types.is_empty() {
            text += &format!(" iter_args({}) -> ({})", bound(carried, initial), list(&types));
        }
        self.with_regions(&types, &text, &[(" ", &body.0)], "")
    }

    /// `scf.for` from 0 to `count`, by 1, that carries one value: `body` gets the index and the value, and returns the next value.
    pub fn fold(
        &mut self,
        count: Value,
        initial: Value,
        body: impl FnOnce(&mut Builder, Value, Value) -> Value,
    ) -> Value {
        let [zero, one] = [0, 1].map(|number| self.index(number));
        let ty = self.type_of(initial).clone();
        let (index, carried) = (self.argument(Type::Scalar(Element::Index)), self.argument(ty));
        self.open_region();
        let next = body(self, index, carried);
        let region = self.close_region();
        let results = self.scf_for((zero, count, one), index, &[carried], &[initial], (region, vec![next]));
        results.first().copied().unwrap_or(initial)
    }

    /// `scf.while`: the first region has `before` as arguments and yields a condition and values, which are the results where the
    /// condition is false and the arguments `after` of the second region where it is true. That one yields the next of `before`.
    pub fn scf_while(
        &mut self,
        before: &[Value],
        initial: &[Value],
        mut test: (Region, Value, Vec<Value>),
        after: &[Value],
        mut body: (Region, Vec<Value>),
    ) -> Vec<Value> {
        let arguments: Vec<Type> = before.iter().map(|value| self.type_of(*value).clone()).collect();
        let results: Vec<Type> = after.iter().map(|value| self.type_of(*value).clone()).collect();
        self.check_types("scf.while", initial, &arguments);
        self.check_types("scf.condition", &test.2, &results);
        let initial = &self.merged(initial, &[], Builder::may_be_same);
        let condition = test.1;
        self.append_to(&mut test.0, |b| {
            let values = b.merged(&test.2, before, |_, one, other| one == other);
            let typed = b.typed(&values);
            b.line(&format!("scf.condition({condition}) {typed}"));
        });
        self.yield_from(&mut body.0, &body.1, &arguments, after);
        let text = format!("scf.while ({}) : ({}) -> ({})", bound(before, initial), list(&arguments), list(&results));
        let header: Vec<String> = after.iter().map(|value| format!("{value}: {}", self.type_of(*value))).collect();
        let mut second = Region { text: String::new() };
        self.append_to(&mut second, |b| b.line_before_block(&header));
        second.text += &body.0.text;
        self.with_regions(&results, &text, &[(" ", &test.0), (" do ", &second)], "")
    }

    /// Returns the values that an operation with regions passes on, each as it is if it is among `arguments` of its region. IREE's compiler,
    /// up to 3.13, reads tensors that branches and loops pass on from the start of their allocation, wherever they are in it, if sizes are
    /// not known: it infers that an aligned offset without a bound is 0. Tensors that it does not see through have no offset.
    fn merged(
        &mut self,
        values: &[Value],
        arguments: &[Value],
        is_copied: impl Fn(&Builder, Value, Value) -> bool,
    ) -> Vec<Value> {
        let mut merged: Vec<Value> = values.to_vec();
        for (index, slot) in merged.iter_mut().enumerate() {
            let value = *slot;
            if !self.is_dynamic
                || self.is_in_dispatch
                || self.type_of(value).extents().is_none()
                || arguments.contains(&value)
            {
                continue;
            }
            // A branch that passes a buffer on twice moves it out of its register the first time.
            let earlier = values.get(..index).unwrap_or_default();
            let is_repeated = earlier.iter().any(|other| is_copied(self, *other, value));
            let own = if is_repeated { self.copied(value) } else { value };
            *slot = self.detached(own);
        }
        merged
    }

    /// Returns whether the compiler may find that two tensors are the same.
    fn may_be_same(&self, one: Value, other: Value) -> bool {
        self.type_of(one) == self.type_of(other)
    }

    /// Appends `scf.yield` to a region with arguments.
    fn yield_from(&mut self, region: &mut Region, values: &[Value], types: &[Type], arguments: &[Value]) {
        self.check_types("scf.yield", values, types);
        self.append_to(region, |b| {
            let values = b.merged(values, arguments, |_, one, other| one == other);
            let typed = b.typed(&values);
            b.line(&format!("scf.yield {typed}"));
        });
    }

    /// Writes the label of a block with arguments.
    pub(crate) fn line_before_block(&mut self, arguments: &[String]) {
        let location = self.location_text();
        let arguments: Vec<String> = arguments.iter().map(|argument| format!("{argument}{location}")).collect();
        let text = format!("  ^bb0({}):\n", list(&arguments));
        self.text.push_str(&text);
    }

    /// Appends the terminator of a region.
    pub(crate) fn terminate(&mut self, region: &mut Region, name: &str, values: &[Value], types: &[Type]) {
        self.check_types(name, values, types);
        let typed = self.typed(values);
        self.append_to(region, |b| b.line(&format!("{name} {typed}")));
    }

    /// Checks that values have the expected types.
    pub(crate) fn check_types(&mut self, name: &str, values: &[Value], types: &[Type]) {
        let fits =
            values.len() == types.len() && values.iter().zip(types).all(|(value, ty)| self.type_of(*value) == ty);
        if !fits {
            self.fail(format!("{name} of ({}) where ({}) is expected", self.types_of(values), list(types)));
        }
    }

    /// Appends an operation with regions, each behind a text. `trailer` follows the last one.
    pub(crate) fn with_regions(
        &mut self,
        types: &[Type],
        header: &str,
        regions: &[(&str, &Region)],
        trailer: &str,
    ) -> Vec<Value> {
        let values: Vec<Value> = types.iter().map(|ty| self.argument(ty.clone())).collect();
        let equals = if values.is_empty() { String::new() } else { format!("{} = ", list(&values)) };
        let indent = "  ".repeat(self.depth() + 1);
        let mut text = format!("{indent}{equals}{header}");
        for (before, region) in regions {
            text += &format!("{before}{{\n{}{indent}}}", region.text);
        }
        text += trailer;
        text += &self.location_text();
        text.push('\n');
        self.text.push_str(&text);
        values
    }
}

/// Writes arguments with the values that they have first.
fn bound(arguments: &[Value], initial: &[Value]) -> String {
    let pairs: Vec<String> =
        arguments.iter().zip(initial).map(|(argument, value)| format!("{argument} = {value}")).collect();
    list(&pairs)
}
