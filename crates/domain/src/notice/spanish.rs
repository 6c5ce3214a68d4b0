//! The notices in Spanish.

use super::Words;

pub(super) const WORDS: Words = Words {
    hint: "¡Hola! Escribe tu pregunta en el mismo mensaje y la responderé.",
    not_served: "Lo siento, mis operadores no me han activado en esta comunidad, así que aquí no puedo responder.",
    model_down: "Lo siento, un problema por mi parte me impide responder ahora; pregúntame de nuevo en unos minutos.",
    timed_out: "Lo siento, he tardado demasiado; pregúntame de nuevo, quizá con palabras más sencillas.",
    no_answer: "Lo siento, no he encontrado una buena respuesta; intenta preguntarlo de otra manera.",
    too_long: "Lo siento, es más de lo que puedo leer de una vez; pregunta con menos texto.",
    filtered: "Lo siento, no puedo responder a eso; pregúntame otra cosa.",
    not_posted: "Lo siento, por un momento no he podido escribir aquí; pregúntame de nuevo.",
    post_refused: "Lo siento, tengo una respuesta, pero no se ha podido publicar aquí; pregúntame de nuevo.",
    interrupted: "Lo siento, me interrumpieron mientras preparaba tu respuesta; pregúntame de nuevo.",
    may_have_acted: "Lo siento, me interrumpieron. Lo que pediste puede estar ya hecho; compruébalo antes de volver a pedirlo.",
    internal: "Lo siento, algo ha fallado por mi parte; pregúntame de nuevo.",
    tools_at_work: "Un momento, estoy usando mis herramientas para esto.",
    busy: "Lo siento, demasiadas personas me preguntan ahora mismo; inténtalo de nuevo en un minuto.",
    lane_full: "Todavía estoy con tus mensajes anteriores; espera primero a esas respuestas.",
    lane_busy: "Todavía estoy con tu último mensaje; pregunta de nuevo cuando lo haya respondido.",
    limit_over: "Has llegado al límite por ahora. Podré responderte de nuevo {retry_at}. Hasta {until}, solo te respondo en <#{channel_id}>.",
    limit_over_for_now: "Has llegado al límite por ahora; podré responderte de nuevo {retry_at}.",
    limit_over_nowhere: "Has llegado al límite; no puedo responderte hasta {until}.",
    limit_never: "Aquí no puedo responderte.",
    limit_shared: "El límite que comparten aquí todos los miembros está agotado; podré responder de nuevo {retry_at}.",
    limit_wait: "Un momento, por favor: tus mensajes anteriores pueden agotar tu límite. Pregunta de nuevo cuando los haya respondido.",
    restricted: "Por ahora solo puedo responderte en <#{channel_id}>, hasta {until}.",
    restricted_without_channel: "No puedo responderte hasta {until}.",
    restricted_elsewhere: "Otra cuenta tuya está restringida, así que no puedo responderte aquí hasta que eso termine.",
    until_lifted: "que un moderador lo levante",
    later: "más tarde",
};
