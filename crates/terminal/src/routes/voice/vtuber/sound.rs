//! Samples and volumes as that front end has them.

/// The duration of each volume, in milliseconds.
pub(super) const SLICE_MS: usize = 20;

/// Returns samples from -1 to 1 as 16 bits, little-endian.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
pub(super) fn samples(audio: &[f32]) -> Vec<u8> {
    audio.iter().flat_map(|sample| ((sample * 32_767.0) as i16).to_le_bytes()).collect()
}

/// Returns the volume of each slice of a WAV file with 16 bits per sample and one channel, relative to the loudest one.
/// Empty for other files.
#[expect(clippy::cast_precision_loss, reason = "files are short")]
pub(super) fn volumes(file: &[u8]) -> Vec<f64> {
    let Some((rate, samples)) = layout(file) else { return Vec::new() };
    let slice = rate as usize * SLICE_MS / 1_000 * 2;
    if slice == 0 {
        return Vec::new();
    }
    let loudness = |slice: &[u8]| {
        let squares = slice.chunks_exact(2).map(|pair| f64::from(i16::from_le_bytes([pair[0], pair[1]])).powi(2));
        (squares.sum::<f64>() / (slice.len() / 2).max(1) as f64).sqrt()
    };
    let mut volumes: Vec<f64> = samples.chunks(slice).map(loudness).collect();
    let most = volumes.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        for volume in &mut volumes {
            *volume = (*volume / most * 1_000.0).round() / 1_000.0;
        }
    }
    volumes
}

/// Returns the rate and the samples. The length of the samples may be a placeholder.
fn layout(file: &[u8]) -> Option<(u32, &[u8])> {
    let number = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    let (mut at, mut rate) = (12, None);
    loop {
        match file.get(at..at + 4)? {
            b"data" => return Some((rate?, &file[(at + 8).min(file.len())..])),
            b"fmt " => {
                // Uncompressed, one channel, and 16 bits.
                let plain = number(at + 8)? == 0x0001_0001 && file.get(at + 22..at + 24)? == [16, 0];
                rate = Some(number(at + 12)?).filter(|_| plain);
            }
            _ => {}
        }
        let length = usize::try_from(number(at + 4)?).ok()?;
        at = at.checked_add(8)?.checked_add(length)?.checked_add(length & 1)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_follow_the_samples_and_hostile_files_have_none() {
        let mut file = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0\xe8\x03\0\0\xd0\x07\0\0\x02\0\x10\0data\xff\xff\xff\xff".to_vec();
        for loud in [0_i16, 100, 200] {
            file.extend(std::iter::repeat_n(loud.to_le_bytes(), 20).flatten());
        }
        assert_eq!(volumes(&file), [0.0, 0.5, 1.0]);
        for hostile in [
            &b""[..],
            b"RIFF",
            &file[..30],
            b"RIFF....WAVEfmt \xff\xff\xff\xff",
            &[b"RIFF....WAVE", &[0; 4_000][..]].concat(),
        ] {
            assert_eq!(volumes(hostile), [0.0; 0]);
        }
        assert_eq!(samples(&[0.0, 1.0, -1.0, f32::NAN, 9.0]), [0, 0, 255, 127, 1, 128, 0, 0, 255, 127]);
    }
}
