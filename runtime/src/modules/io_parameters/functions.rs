//! The module's functions.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::IoParametersState;
use crate::bytecode::read::{array_at, u32_at};
use crate::hal::backend::Operation;
use crate::hal::{Buffer, BufferParameters, BufferUsage, Device, Fences, MemoryType, SignalFence};
use crate::modules::bytes::with_bytes;
use crate::modules::hal::{OptionalFence, fences};
use crate::parameters::{ParameterProvider, ParameterSpan, Transfer};
use crate::vm::{Buffer as VmBuffer, Caller, Charge, Ledger, List, Ref, TypedRefObject, Value, ValueType};
use crate::{Error, Result, ResultExt};

/// Bytes of a row of the table of keys: offset and length, 32 bits each.
const KEY_BYTES: usize = 8;
/// Bytes of a row of the table of spans: offsets into the parameter and into the buffer, and length, 64 bits each.
const SPAN_BYTES: usize = 24;
/// Bytes of memory for each span: it, its buffer in a result, and its transfer, in arrays that at most double.
const ROW_BYTES: u64 = (size_of::<ParameterSpan>() + size_of::<Arc<Buffer>>() + 2 * size_of::<Operation>()) as u64;

#[allow(clippy::too_many_arguments, missing_docs, reason = "the imports, as programs declare them")]
impl IoParametersState {
    pub fn load(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        scope: Option<Arc<VmBuffer>>,
        _target_affinity: u64,
        memory_type: u32,
        usage: u32,
        key_table: Arc<VmBuffer>,
        key_data: Arc<VmBuffer>,
        spans: Arc<VmBuffer>,
    ) -> Result<Arc<List>> {
        let request = Request::new(scope, &key_table, &key_data, &spans, caller.ledger())?;
        let parameters = BufferParameters {
            memory_type: MemoryType::from_bits_retain(memory_type),
            usage: BufferUsage::from_bits_retain(usage),
        };
        let provider = self.provider(&request.scope)?;
        let buffers = provider.load(
            request.transfer(device, fences(caller, &self.options.pending, affinity, &wait, signal)),
            parameters,
        )?;
        let count = u32::try_from(buffers.len()).map_err(|_| Error::out_of_range("more than 32 bits of parameters"))?;
        let list = List::new(ValueType::Ref(Buffer::TYPE), count, Some(&caller.stack.limits().ledger))?;
        buffers.into_iter().try_for_each(|buffer| list.push(Value::Ref(Ref::from(buffer))))?;
        Ok(list)
    }

    pub fn gather(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        scope: Option<Arc<VmBuffer>>,
        target: Arc<Buffer>,
        key_table: Arc<VmBuffer>,
        key_data: Arc<VmBuffer>,
        spans: Arc<VmBuffer>,
    ) -> Result<()> {
        let request = Request::new(scope, &key_table, &key_data, &spans, caller.ledger())?;
        self.provider(&request.scope)?
            .gather(request.transfer(device, fences(caller, &self.options.pending, affinity, &wait, signal)), &target)
    }

    pub fn scatter(
        &self,
        caller: &mut Caller<'_>,
        device: &Device,
        affinity: u64,
        wait: OptionalFence<'_>,
        signal: SignalFence<'_>,
        source: Arc<Buffer>,
        scope: Option<Arc<VmBuffer>>,
        key_table: Arc<VmBuffer>,
        key_data: Arc<VmBuffer>,
        spans: Arc<VmBuffer>,
    ) -> Result<()> {
        let request = Request::new(scope, &key_table, &key_data, &spans, caller.ledger())?;
        self.provider(&request.scope)?
            .scatter(request.transfer(device, fences(caller, &self.options.pending, affinity, &wait, signal)), &source)
    }

    fn provider(&self, scope: &str) -> Result<&dyn ParameterProvider> {
        let mut providers = self.options.providers.iter();
        providers.find(|provider| provider.provides(scope)).map(|provider| &**provider).ok_or_else(|| {
            Error::not_found(format!(
                "no parameters of scope '{}' were given, as `--parameters={}FILE` or the session's builder does",
                scope.escape_debug(),
                if scope.is_empty() { String::new() } else { format!("{}=", scope.escape_debug()) }
            ))
        })
    }
}

/// A request of a program.
struct Request {
    scope: String,
    spans: Vec<ParameterSpan>,
    /// Of the spans, their keys and the transfers.
    _charge: Charge,
}

impl Request {
    fn new(
        scope: Option<Arc<VmBuffer>>,
        key_table: &VmBuffer,
        key_data: &VmBuffer,
        spans: &VmBuffer,
        ledger: &Ledger,
    ) -> Result<Request> {
        let text = |scope: &Arc<VmBuffer>| scope.text().map(Cow::into_owned);
        let scope = scope.as_ref().map_or(Ok(String::new()), text).context(|| "scope of parameters")?;
        let read = |key_table: &[u8], key_data: &[u8], spans: &[u8]| {
            let (rows, rest) = spans.as_chunks::<SPAN_BYTES>();
            if !rest.is_empty() || key_table.len() / KEY_BYTES < rows.len() {
                return Err(Error::invalid_argument(format!(
                    "tables of {} and {} bytes are not those of keys and spans of parameters",
                    key_table.len(),
                    spans.len()
                )));
            }
            let mut charge = ledger.charge((rows.len() as u64).saturating_mul(ROW_BYTES))?;
            let mut spans = Vec::new();
            let reserved = spans.try_reserve_exact(rows.len());
            reserved.map_err(|_| Error::resource_exhausted(format!("no memory for {} spans", rows.len())))?;
            for (index, row) in rows.iter().enumerate() {
                spans.push(span(key_table, key_data, index, row, &mut charge)?);
            }
            Ok((spans, charge))
        };
        let whole = |buffer: &VmBuffer| buffer.length();
        let (spans, charge) = with_bytes(key_table, 0, whole(key_table), ledger, |key_table| {
            with_bytes(key_data, 0, whole(key_data), ledger, |key_data| {
                with_bytes(spans, 0, whole(spans), ledger, |spans| read(key_table, key_data, spans))
            })
        })?;
        Ok(Request { scope, spans, _charge: charge })
    }

    fn transfer<'a>(&'a self, device: &'a Device, fences: Fences<'a>) -> Transfer<'a> {
        Transfer { device, fences, scope: &self.scope, spans: &self.spans }
    }
}

/// A row of the tables.
fn span(
    key_table: &[u8],
    key_data: &[u8],
    index: usize,
    row: &[u8; SPAN_BYTES],
    charge: &mut Charge,
) -> Result<ParameterSpan> {
    let at = index * KEY_BYTES;
    let (offset, length) = u32_at(key_table, at).zip(u32_at(key_table, at + 4)).unwrap_or_default();
    let key = key_data.get(offset as usize..).and_then(|rest| rest.get(..length as usize)).ok_or_else(|| {
        Error::out_of_range(format!(
            "key {index} of {length} bytes at offset {offset} leaves the keys, which have {} bytes",
            key_data.len()
        ))
    })?;
    let key = core::str::from_utf8(key)
        .map_err(|_| Error::invalid_argument(format!("key {index} is not UTF-8: '{}'", key.escape_ascii())))?;
    charge.grow(key.len() as u64)?;
    let number = |at| array_at(row, at).map(u64::from_le_bytes).unwrap_or_default();
    Ok(ParameterSpan { key: key.into(), parameter_offset: number(0), buffer_offset: number(8), length: number(16) })
}
