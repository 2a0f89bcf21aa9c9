//! The parameters of a task as DAP spells them (`vdaf_configuration`), and the VDAF that they make.
//!
//! The limits are those of the Python reference, so that both refuse the same tasks.

use prio::field::{Field128, Field64};
use prio::flp::gadgets::{Mul, ParallelSum};
use prio::flp::types::{Count, Histogram, MultihotCountVec, Sum, SumVec};
use prio::flp::{FlpError, Type};
use prio::vdaf::prio3::Prio3;

use crate::steps::{Prio, Steps};
use crate::{Refused, SHARES};

const ELEMENTS_MOST: u64 = 1 << 20; // of an encoded measurement or a chunk
const SUM_MOST: u64 = (1 << 63) - 1; // a weight and its bits fit Field64

type Products = ParallelSum<Field128, Mul>;

const UNKNOWN: Refused = Refused::Peer("no such Prio3 type, or not its parameters");

/// The steps of one VDAF.
///
/// # Errors
/// `Peer`.
pub fn steps_of(algorithm_id: u32, config: &[u8]) -> Result<Box<dyn Steps>, Refused> {
    let mut left = config;
    let steps = match algorithm_id {
        1 => of(1, Ok(Count::<Field64>::new()), |m| match *m {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }),
        2 => sum(&mut left),
        3 => sum_vec(&mut left),
        4 => histogram(&mut left),
        5 => multihot(&mut left),
        _ => Err(UNKNOWN),
    }?;
    if left.is_empty() {
        Ok(steps)
    } else {
        Err(UNKNOWN)
    }
}

fn sum(left: &mut &[u8]) -> Result<Box<dyn Steps>, Refused> {
    let most = u64_of(left)?;
    if most > SUM_MOST {
        return Err(UNKNOWN);
    }
    of(2, Sum::<Field64>::new(most), move |m| match *m {
        [value] if value <= most => Some(value),
        _ => None,
    })
}

fn sum_vec(left: &mut &[u8]) -> Result<Box<dyn Steps>, Refused> {
    let (length, most, chunk) = (u32_of(left)?, u64_of(left)?, u32_of(left)?);
    let bits = u64::from(u64::BITS - most.leading_zeros());
    let chunk = demand_sizes(length, bits * u64::from(length), chunk)?;
    let typ = SumVec::<Field128, Products>::new(u128::from(most), size(length)?, chunk);
    of(3, typ, move |m| {
        let fits = m.len() == length as usize && m.iter().all(|value| *value <= most);
        fits.then(|| m.iter().copied().map(u128::from).collect())
    })
}

fn histogram(left: &mut &[u8]) -> Result<Box<dyn Steps>, Refused> {
    let (length, chunk) = (u32_of(left)?, u32_of(left)?);
    let chunk = demand_sizes(length, u64::from(length), chunk)?;
    let typ = Histogram::<Field128, Products>::new(size(length)?, chunk);
    of(4, typ, move |m| match *m {
        [bucket] if bucket < u64::from(length) => usize::try_from(bucket).ok(),
        _ => None,
    })
}

fn multihot(left: &mut &[u8]) -> Result<Box<dyn Steps>, Refused> {
    let (length, chunk, weight) = (u32_of(left)?, u32_of(left)?, u64_of(left)?);
    if weight > u64::from(length) {
        return Err(UNKNOWN);
    }
    let bits = u64::from(u64::BITS - weight.leading_zeros());
    let chunk = demand_sizes(length, u64::from(length) + bits, chunk)?;
    let most = usize::try_from(weight).map_err(|_| UNKNOWN)?;
    let typ = MultihotCountVec::<Field128, Products>::new(size(length)?, most, chunk);
    of(5, typ, move |m| {
        let set = m.iter().filter(|flag| **flag == 1).count();
        let fits = m.len() == length as usize && m.iter().all(|flag| *flag <= 1) && set <= most;
        fits.then(|| m.iter().map(|flag| *flag == 1).collect())
    })
}

/// The steps of a circuit; `read` gives a measurement that it takes, or nothing.
fn of<T>(
    algorithm_id: u32,
    typ: Result<T, FlpError>,
    read: impl Fn(&[u64]) -> Option<T::Measurement> + Send + Sync + 'static,
) -> Result<Box<dyn Steps>, Refused>
where
    T: Type + Send + Sync + 'static,
{
    let typ = typ.map_err(|_| UNKNOWN)?;
    let shares = u8::try_from(SHARES).map_err(|_| UNKNOWN)?;
    let prio3 = Prio3::new(shares, 1, algorithm_id, typ.clone()).map_err(|_| UNKNOWN)?;
    Ok(Box::new(Prio {
        algorithm_id,
        typ,
        prio3,
        read: Box::new(read),
    }))
}

/// The chunk length, where it and the number of encoded elements are in range.
fn demand_sizes(length: u32, elements: u64, chunk: u32) -> Result<usize, Refused> {
    let range = 1..=ELEMENTS_MOST;
    if length == 0 || !range.contains(&elements) || !range.contains(&u64::from(chunk)) {
        return Err(UNKNOWN);
    }
    size(chunk)
}

fn size(number: u32) -> Result<usize, Refused> {
    usize::try_from(number).map_err(|_| UNKNOWN)
}

fn u32_of(left: &mut &[u8]) -> Result<u32, Refused> {
    let (first, rest) = left.split_first_chunk().ok_or(UNKNOWN)?;
    *left = rest;
    Ok(u32::from_be_bytes(*first))
}

fn u64_of(left: &mut &[u8]) -> Result<u64, Refused> {
    let (first, rest) = left.split_first_chunk().ok_or(UNKNOWN)?;
    *left = rest;
    Ok(u64::from_be_bytes(*first))
}
