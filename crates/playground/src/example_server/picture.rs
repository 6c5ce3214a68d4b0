//! Draws a harbour as PNG. Equal words give equal pictures.

use std::io::Write as _;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

const WIDTH: u32 = 320;
const HEIGHT: u32 = 200;
/// The row at which the water begins.
const HORIZON: u32 = 120;

type Colour = [u8; 3];

const SKIES: [(Colour, Colour); 5] = [
    ([70, 130, 200], [200, 225, 245]),
    ([50, 40, 90], [245, 150, 90]),
    ([20, 24, 50], [60, 80, 120]),
    ([90, 100, 110], [170, 175, 180]),
    ([120, 60, 120], [250, 190, 170]),
];
const SAILS: [Colour; 5] = [[250, 250, 245], [220, 60, 50], [240, 190, 60], [60, 150, 110], [230, 120, 170]];
const SUN: Colour = [255, 225, 140];
const HULL: Colour = [90, 55, 35];

pub(super) fn harbour(words: &str) -> Vec<u8> {
    let seed = words.bytes().fold(7_u32, |seed, byte| seed.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let pick = |shift: u32, many: u32| (seed.rotate_right(shift) ^ seed) % many;
    let (high, low) = SKIES[pick(3, 5) as usize];
    let sail = SAILS[pick(11, 5) as usize];
    let (sun_x, sun_y) = (40 + pick(7, 240), 25 + pick(17, 70));
    let boat = 60 + pick(23, 180);
    let mut rows = Vec::with_capacity((HEIGHT * (WIDTH * 3 + 1)) as usize);
    for y in 0..HEIGHT {
        // The filter of each row: none.
        rows.push(0);
        for x in 0..WIDTH {
            rows.extend(pixel((x, y), (high, low), (sun_x, sun_y), (boat, sail)));
        }
    }
    png(&rows)
}

fn pixel((x, y): (u32, u32), (high, low): (Colour, Colour), sun: (u32, u32), (boat, sail): (u32, Colour)) -> Colour {
    let from_boat = x.abs_diff(boat);
    if (128..142).contains(&y) && from_boat < 40 - (y - 128) {
        return HULL;
    }
    if (60..126).contains(&y) && (from_boat < 2 || (x > boat && from_boat < (y - 60) / 2)) {
        return if from_boat < 2 { HULL } else { sail };
    }
    if y >= HORIZON {
        let wave = u8::try_from((x / 3 + y * y / 7) % 24).unwrap_or(0);
        let water = mixed(low, [10, 40, 80], (y - HORIZON) * 2 + 60, 255);
        return water.map(|part| part.saturating_add(wave));
    }
    let (dx, dy) = (x.abs_diff(sun.0), y.abs_diff(sun.1));
    if dx * dx + dy * dy < 18 * 18 { SUN } else { mixed(high, low, y, HORIZON) }
}

/// Mixes two colours: `part` of `most` of the second, the rest of the first.
fn mixed(one: Colour, other: Colour, part: u32, most: u32) -> Colour {
    let part = part.min(most);
    std::array::from_fn(|at| {
        let sum = u32::from(one[at]) * (most - part) + u32::from(other[at]) * part;
        u8::try_from(sum / most.max(1)).unwrap_or(u8::MAX)
    })
}

fn png(rows: &[u8]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = [WIDTH.to_be_bytes(), HEIGHT.to_be_bytes()].concat();
    // Eight bits each for red, green and blue.
    header.extend([8, 2, 0, 0, 0]);
    chunk(&mut file, *b"IHDR", &header);
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing into memory cannot fail.
    let data = packed.write_all(rows).and_then(|()| packed.finish()).unwrap_or_default();
    chunk(&mut file, *b"IDAT", &data);
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    file.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    file.extend(kind);
    file.extend(data);
    let mut sum = Crc::new();
    sum.update(&kind);
    sum.update(data);
    file.extend(sum.sum().to_be_bytes());
}
