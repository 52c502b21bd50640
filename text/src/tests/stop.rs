//! Stop texts, wherever the pieces of a text are divided.

use crate::StopTexts;

/// Returns what is shown of a text whose pieces have so many characters, and the stop text.
fn shown(stops: &[&str], text: &str, length: usize) -> (String, Option<String>) {
    let mut stop = StopTexts::new(stops.iter().copied());
    let characters: Vec<char> = text.chars().collect();
    let mut shown: String =
        characters.chunks(length).map(|piece| stop.push(&piece.iter().collect::<String>())).collect();
    shown += &stop.finish();
    (shown, stop.stopped_by().map(str::to_owned))
}

#[test]
fn the_first_stop_text_ends_the_text() {
    for (stops, text, expected, by) in [
        (&["STOP"][..], "go STOP go", "go ", Some("STOP")),
        (&["STOP"], "go STO", "go STO", None),
        (&["STOP"], "SSTOP", "S", Some("STOP")),
        (&["STOP"], "STSTOSTOPP", "STSTO", Some("STOP")),
        (&["aab"], "aaaab", "aa", Some("aab")),
        (&["abab"], "abaabab", "aba", Some("abab")),
        (&["abcd", "bc"], "abcd", "a", Some("bc")),
        (&["c", "bc", "xbc"], "abc", "a", Some("bc")),
        (&["日本", "本"], "x日日本", "x日", Some("日本")),
        (&["🤗"], "🤖🤗", "🤖", Some("🤗")),
        (&["", "x"], "yx", "y", Some("x")),
        (&[""], "yx", "yx", None),
        (&[], "yx", "yx", None),
        (&["\n\n", "User:"], "a\nUser:\n\n", "a\n", Some("User:")),
    ] {
        for length in 1..=12 {
            assert_eq!(shown(stops, text, length), (expected.to_owned(), by.map(str::to_owned)), "{text} by {length}");
        }
    }
}

#[test]
fn text_is_held_back_only_while_it_may_stop() {
    let mut stop = StopTexts::new(["STOP", "TOAST"]);
    let shown: Vec<String> = ["a S", "T", "O", "A", "b", " S"].iter().map(|piece| stop.push(piece)).collect();
    assert_eq!(shown, ["a ", "", "", "S", "TOAb", " "]);
    assert_eq!(
        (stop.finish(), stop.push("TOP"), stop.push("ST"), stop.push("OP")),
        ("S".into(), "TOP".into(), "".into(), "".into())
    );
    assert_eq!(stop.stopped_by(), Some("STOP"));
    assert_eq!((stop.push("more"), stop.finish()), (String::new(), String::new()));
}
