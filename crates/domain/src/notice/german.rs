//! The notices in German.

use super::Words;

pub(super) const WORDS: Words = Words {
    hint: "Hallo! Schreib deine Frage in dieselbe Nachricht, dann beantworte ich sie.",
    not_served: "Tut mir leid, meine Betreiber haben mich für diese Community nicht freigegeben; hier kann ich nicht antworten.",
    model_down: "Entschuldige, wegen einer Störung kann ich gerade nicht antworten; frag mich bitte in ein paar Minuten noch einmal.",
    timed_out: "Entschuldige, das hat zu lange gedauert; frag mich bitte noch einmal, vielleicht einfacher.",
    no_answer: "Entschuldige, darauf habe ich keine gute Antwort gefunden; frag bitte noch einmal mit anderen Worten.",
    too_long: "Entschuldige, das ist mehr, als ich auf einmal lesen kann; frag bitte mit weniger Text.",
    filtered: "Entschuldige, darauf darf ich nicht antworten; frag mich bitte etwas anderes.",
    not_posted: "Entschuldige, ich durfte hier gerade nicht schreiben; frag mich bitte noch einmal.",
    post_refused: "Entschuldige, ich habe eine Antwort, aber sie ließ sich hier nicht senden; frag mich bitte noch einmal.",
    interrupted: "Entschuldige, ich wurde bei deiner Nachricht unterbrochen; frag mich bitte noch einmal.",
    may_have_acted: "Entschuldige, ich wurde unterbrochen. Vielleicht ist dein Auftrag schon ausgeführt; prüfe das bitte zuerst.",
    internal: "Entschuldige, bei mir ist etwas schiefgegangen; frag mich bitte noch einmal.",
    tools_at_work: "Einen Moment, ich benutze dafür meine Werkzeuge.",
    busy: "Entschuldige, gerade fragen mich zu viele Leute; versuch es bitte in einer Minute noch einmal.",
    lane_full: "Ich arbeite noch an deinen früheren Nachrichten; warte bitte erst auf diese Antworten.",
    lane_busy: "Ich arbeite noch an deiner letzten Nachricht; frag bitte wieder, wenn ich sie beantwortet habe.",
    limit_over: "Du hast das Limit vorerst erreicht. Ich kann dir {retry_at} wieder antworten. Ich antworte dir nur in <#{channel_id}>, bis {until}.",
    limit_over_for_now: "Du hast das Limit vorerst erreicht; {retry_at} kann ich dir wieder antworten.",
    limit_over_nowhere: "Du hast das Limit erreicht; ich kann dir nicht antworten, bis {until}.",
    limit_never: "Hier darf ich dir nicht antworten.",
    limit_shared: "Das Limit, das hier alle Mitglieder teilen, ist aufgebraucht; {retry_at} kann ich wieder antworten.",
    limit_wait: "Einen Moment bitte: Deine früheren Nachrichten könnten dein Limit ausschöpfen. Frag wieder, wenn sie beantwortet sind.",
    restricted: "Vorerst kann ich dir nur in <#{channel_id}> antworten, bis {until}.",
    restricted_without_channel: "Ich kann dir nicht antworten, bis {until}.",
    restricted_elsewhere: "Ein anderes Konto von dir ist eingeschränkt, darum kann ich dir hier nicht antworten, bis das endet.",
    until_lifted: "ein Moderator das aufhebt",
    later: "später",
};
