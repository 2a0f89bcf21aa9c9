//! What needs no vector file; the draft's vectors are replayed from Python, beside the reference.

use super::{Refused, Vdaf, SEED_SIZE};

const KEY: [u8; SEED_SIZE] = [7; SEED_SIZE];
const NONCE: [u8; 16] = [3; 16];
const CTX: &[u8] = b"an application";

fn sum_vec(length: u32, most: u64, chunk: u32) -> Vec<u8> {
    [
        &length.to_be_bytes()[..],
        &most.to_be_bytes(),
        &chunk.to_be_bytes(),
    ]
    .concat()
}

fn two(number: u32, other: u32) -> Vec<u8> {
    [number.to_be_bytes(), other.to_be_bytes()].concat()
}

/// The sum of one report through all steps.
fn through(
    vdaf: &Vdaf,
    measurement: &[u64],
    damage: impl Fn(&mut Vec<u8>),
) -> Result<Vec<u128>, Refused> {
    let rand: Vec<u8> = (0_u8..).take(vdaf.rand_size()).collect();
    let (public, [mut leader, helper]) = vdaf.shard(CTX, measurement, &NONCE, &rand)?;
    damage(&mut leader);
    let (left, first) = vdaf.verify_init(&KEY, CTX, 0, &NONCE, &public, &leader)?;
    let (right, second) = vdaf.verify_init(&KEY, CTX, 1, &NONCE, &public, &helper)?;
    let message = vdaf.verifier_shares_to_message(CTX, &[&first, &second])?;
    let outs = [
        vdaf.verify_next(&left, &message)?,
        vdaf.verify_next(&right, &message)?,
    ];
    let total = vdaf.merge(&[&outs[0], &outs[1]])?;
    vdaf.decode_agg_share(&total)
}

#[test]
fn a_report_of_each_type_adds_up_and_a_damaged_one_is_refused() -> Result<(), Refused> {
    let weight = [&two(4, 2)[..], &2_u64.to_be_bytes()].concat();
    let cases: [(u32, Vec<u8>, Vec<u64>); 5] = [
        (1, vec![], vec![1]),
        (2, 20_u64.to_be_bytes().to_vec(), vec![13]),
        (3, sum_vec(3, 6, 2), vec![6, 0, 5]),
        (4, two(4, 2), vec![2]),
        (5, weight, vec![0, 1, 1, 0]),
    ];
    for (algorithm_id, config, measurement) in cases {
        let vdaf = Vdaf::new(algorithm_id, &config)?;
        let sum = match algorithm_id {
            4 => vec![0, 0, 1, 0],
            _ => measurement.iter().copied().map(u128::from).collect(),
        };
        assert_eq!(through(&vdaf, &measurement, |_| ()), Ok(sum));
        let refused = through(&vdaf, &measurement, |share| {
            if let Some(byte) = share.first_mut() {
                *byte ^= 1;
            }
        });
        assert!(matches!(refused, Err(Refused::Peer(_))));
        assert!(matches!(
            through(&vdaf, &[21, 0, 9], |_| ()),
            Err(Refused::Caller(_))
        ));
    }
    Ok(())
}

#[test]
fn a_configuration_that_is_no_task_s_is_refused() {
    let bad: [(u32, Vec<u8>); 9] = [
        (0, vec![]),
        (1, vec![0]),
        (2, vec![0; 8]),
        (2, vec![0xff; 8]),
        (3, sum_vec(1 << 20, 2, 5)),
        (3, sum_vec(4, 1, 0)),
        (4, two(0, 1)),
        (4, two(1, 1 << 21)),
        (5, [&two(4, 2)[..], &5_u64.to_be_bytes()].concat()),
    ];
    for (algorithm_id, config) in bad {
        assert!(matches!(
            Vdaf::new(algorithm_id, &config),
            Err(Refused::Peer(_))
        ));
    }
}

#[test]
fn a_context_that_no_tag_can_hold_is_the_callers_mistake() -> Result<(), Refused> {
    let vdaf = Vdaf::new(1, &[])?;
    let ctx = vec![0; 0x10000];
    assert!(matches!(
        vdaf.shard(&ctx, &[1], &NONCE, &[0; 64]),
        Err(Refused::Caller(_))
    ));
    Ok(())
}
