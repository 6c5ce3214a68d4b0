//! The answers to commands in Spanish.

use super::many;
use super::words::Words;
use crate::command::CommandKind;
use crate::limits::account::Scope;
use crate::people::LinkRefusal;
use crate::voice_channel::{VoiceNotice, VoiceReply};

pub(super) const WORDS: Words = Words {
    describe: |kind| match kind {
        CommandKind::Help => "Qué hago, cómo hablar conmigo y qué comandos puedes ejecutar",
        CommandKind::New => "Empezar de nuevo nuestra conversación aquí",
        CommandKind::Model => "Ver o elegir el modelo que te responde",
        CommandKind::Settings => "Ver o cambiar cómo te respondo: longitud, idioma, herramientas, memoria y más",
        CommandKind::Usage => "Lo que has usado y lo que te queda de tus límites",
        CommandKind::Forget => "Borrar todo lo que guardo sobre ti",
        CommandKind::Export => "Recibir como archivo todo lo que guardo sobre ti",
        CommandKind::Remember => "Decirme algo que deba recordar aquí",
        CommandKind::Memories => "Ver lo que recuerdo para ti o borrar algo",
        CommandKind::Link => "Vincular tus cuentas de dos plataformas: mismos límites, ajustes y memoria",
        CommandKind::Unlink => "Desvincular esta cuenta de tus otras cuentas",
        CommandKind::Join => "Entrar en tu canal de voz y decir allí mis respuestas",
        CommandKind::Leave => "Salir del canal de voz",
        CommandKind::Listen => "Escucharte en el canal de voz: on, off",
        CommandKind::Tools => "Las herramientas que puedo usar",
        CommandKind::Status => "Mi estado: partes, modelos, colas, límites",
        CommandKind::Approvals => "Llamadas a herramientas que esperan aprobación o están permitidas por un tiempo",
        CommandKind::RefreshTools => "Recargar las listas de herramientas de todos los servidores",
        CommandKind::RefreshStatus => "Recargar mis prompts y ajustes, y escribir una nueva línea de estado",
    },
    row: "El modelo que te responderá desde ahora; default retira tu elección",
    user: "Otro miembro; solo para operadores",
    withdraw: "El identificador de una llamada permitida que vuelve a requerir aprobación",
    fact: "Lo que debo olvidar",
    category: "La categoría cuyas herramientas se muestran, como search",
    remember: "Lo que debo recordar, en una frase corta",
    link: "El código que te mostré en la otra plataforma; sin él, recibes uno",
    digit: |c| match c {
        // The narrow no-break space that groups digits in Spanish.
        ',' => '\u{202f}',
        '.' => ',',
        c => c,
    },

    operators_only: |name| format!("`/{name}` es solo para los operadores de este bot."),
    usage_of_others: "Solo los operadores pueden ver lo que ha usado otra persona. Ejecuta `/usage` sin nombre para ver lo tuyo.",
    unknown: "No conozco este comando. Quizá tu lista de comandos está anticuada; `/help` los nombra todos.",
    broken: "Lo siento, algo ha fallado por mi parte y no sé decir hasta dónde llegué. Ejecútalo de nuevo, por favor.",
    too_slow: "Lo siento, esto tardó demasiado y paré antes del final. Ejecútalo de nuevo en un minuto, por favor.",
    forgetting_goes_on: "He registrado que hay que borrar todos tus datos. Tarda más de lo normal y continúa por sí solo; no hace falta que ejecutes `/forget` otra vez.",
    busy: "Lo siento, demasiadas personas me preguntan ahora mismo. No se hizo nada; ejecútalo de nuevo en un minuto, por favor.",
    still_running: "Tus últimos comandos aún se están ejecutando. No se hizo nada; espera primero a sus respuestas, por favor.",

    begun_anew: "Aquí empezamos de nuevo: ya no sé lo que dijimos en este canal. Si respondes a uno de mis mensajes anteriores, vuelvo a ver ese mensaje.",
    fresh_already: "No hay nada que hacer: nuestra conversación en este canal ya es nueva.",
    begun_unsure: "Aquí empezamos de nuevo. En este momento no puedo acceder a mi almacén; si más tarde aún conozco mensajes anteriores, ejecuta `/new` otra vez.",

    conversations: |count, messages| {
        format!("{} con {}", many(count, "conversación", "conversaciones"), many(messages, "mensaje", "mensajes"))
    },
    recorded: |count| format!("{} para comparar modelos", many(count, "pregunta registrada", "preguntas registradas")),
    audit: |count| format!("{} de tus llamadas a herramientas y aprobaciones", many(count, "registro", "registros")),
    summaries: |count| format!("{} de partes anteriores de conversaciones", many(count, "resumen", "resúmenes")),
    facts: |count| format!("{} que me pediste recordar", many(count, "nota", "notas")),
    choice: "tus ajustes",
    tokens_used: "cuántos tokens has usado",
    forgotten: "**Olvidado**",
    nothing_kept: "No guardaba nada sobre ti que se pudiera olvidar.",
    quoted_in: |count| {
        format!(
            "tus palabras en {} de otros miembros, que respondieron a mis respuestas para ti",
            many(count, "conversación", "conversaciones")
        )
    },
    still_answered: |count| match count {
        1 => "1 pregunta anterior aún tendrá respuesta, pero no quedará en la memoria.".to_owned(),
        _ => format!("{count} preguntas anteriores aún tendrán respuesta, pero no quedarán en la memoria."),
    },
    kept: &[
        "**Lo que se conserva, y por qué**",
        "tus límites y cualquier restricción, con sus fechas: `/forget` no los termina",
        "durante una hora, los identificadores de los mensajes que respondí, para no responder ninguno dos veces",
        "los mensajes de los canales: se quedan ahí, y los tuyos puedes borrarlos tú",
    ],
    forget_again: "**En este momento no puedo acceder a mi almacén.** He borrado todos los datos tuyos que puedo ver, pero puede haber más. Ejecuta `/forget` de nuevo más tarde, por favor.",
    kept_for_replies: |answers| {
        let questions = many(answers, "pregunta con su respuesta", "preguntas con sus respuestas");
        format!("{questions} (para respuestas posteriores)")
    },
    exported: |items| {
        format!(
            "Todo lo que guardo sobre ti: {items}. Los contadores de tus límites no están incluidos; caducan solos."
        )
    },
    export_again: "**En este momento no puedo acceder a mi almacén**, así que puede haber más. Ejecuta `/export` de nuevo más tarde, por favor.",

    memories: "**Lo que me pediste recordar**",
    memories_how: "Uso cada cosa donde me la dijiste, y en los hilos de ese canal, solo para tus preguntas. `/memories forget:` borra una; también puedes pedírmelo.",
    summarised: "**Resúmenes de lo que hablamos antes**",
    summarised_how: "Los escribió un modelo, para poder seguir una conversación larga. Uso cada uno solo en su canal y solo para tus preguntas. `/new` borra el de este canal y `/forget` los borra todos.",
    memories_more: |count| format!("y {count} más, que están en `/export`"),
    no_memories: "No recuerdo nada para ti. Pídemelo cuando hables conmigo, o usa `/remember`.",
    remembered: [
        "Lo recordaré aquí, solo para tus preguntas. `/memories` lo muestra todo y borra una cosa.",
        "Eso ya lo recuerdo; `/memories` lo muestra todo y borra una cosa.",
    ],
    remember_what: "Escribe lo que debo recordar: `/remember fact:` y una frase corta.",
    remember_off: "Aquí no guardo notas.",
    remember_too_long: |bytes| {
        format!("Es demasiado largo para recordarlo: como máximo {bytes} bytes. Dilo con menos palabras.")
    },
    remember_full: |count| {
        format!("Ya recuerdo {} tuyas, que es el máximo. `/memories forget:` borra una.", many(count, "nota", "notas"))
    },
    remember_no_room: "Ahora no hay sitio para más recuerdos.",
    fact_forgotten: "Lo he olvidado.",
    no_such_fact: "No tengo esa nota tuya. `/memories` muestra las que hay.",
    memory_away: "En este momento no puedo acceder a mi almacén. Inténtalo de nuevo en un minuto.",

    change: "Por ejemplo verbosity short, here language de o tools off; default restablece un ajuste",
    settings: [
        "**Tus ajustes**",
        "Cambia uno con `/settings change:`, por ejemplo `verbosity short`. Con `here` delante vale solo en esta conversación; `default` lo restablece.",
    ],
    marks: ["sin valor", "por defecto", "aquí", "fijado por el operador"],
    setting_changed: |name, value, here| {
        let place = if here { "en esta conversación" } else { "en todas las conversaciones" };
        format!("Desde tu próximo mensaje, `{name}` es `{value}` {place}.")
    },
    setting_reset: |name, here| {
        let place = if here { " en esta conversación" } else { "" };
        format!("`{name}` está restablecido{place}.")
    },
    setting_unknown: |names| format!("No existe ese ajuste. Los ajustes son {names}."),
    setting_wrong: |name, values| format!("`{name}` acepta: {values}, o default."),
    setting_closed: |name| format!("Los operadores de este bot no dejan que los miembros cambien `{name}`."),
    setting_not_served: |name, row| {
        format!("`{name}` no tiene efecto ahora, porque el modelo `{row}` no lo ofrece. No se cambió nada.")
    },

    link_code: |code| {
        format!(
            "Tu código es `{code}`. Antes de cinco minutos, ejecuta `/link` con él en la otra plataforma. Vale una vez. Tus cuentas comparten entonces límites, uso y ajustes. `/memories`, `/export` y `/forget` valen para todas, y una restricción de una vale para todas. **No muestres el código a ninguna otra persona**: una cuenta que lo introduzca puede leer y borrar tus datos."
        )
    },
    linked: |accounts| {
        format!(
            "Estas cuentas están vinculadas ahora: {accounts}. Los ajustes de la primera valen para todas. Si otra persona te dio este código, ejecuta `/unlink` enseguida."
        )
    },
    unlinked: "Esta cuenta ya no está vinculada. Vuelve a tener sus propios ajustes y límites; lo que usó sigue contando.",
    link_refused: |refusal| match refusal {
        LinkRefusal::Closed => "Los operadores de este bot no permiten que los miembros vinculen cuentas.",
        LinkRefusal::Code => {
            "No conozco este código: está mal escrito, usado o tiene más de cinco minutos. Ejecuta `/link` en la otra plataforma para recibir uno nuevo."
        }
        LinkRefusal::TooMany => "Hubo demasiados códigos incorrectos. Inténtalo de nuevo en cinco minutos.",
        LinkRefusal::SameDoor => {
            "Este código se mostró en esta plataforma y ya no vale. Ejecuta `/link` en una plataforma e introduce el código en otra."
        }
        LinkRefusal::Already => "Estas cuentas ya están vinculadas.",
        LinkRefusal::Full => "No hay sitio para otra cuenta. `/unlink` desvincula una.",
        LinkRefusal::Restricted => {
            "Una de tus cuentas está restringida. Podrás desvincularla cuando termine la restricción."
        }
        LinkRefusal::NoLink => "Esta cuenta no está vinculada a ninguna otra.",
        LinkRefusal::Away => "En este momento no puedo acceder a mi almacén. Inténtalo de nuevo en un minuto.",
    },

    switch: "on: lo que dices es tu pregunta; off: no te oigo",
    voice: |reply| match reply {
        VoiceReply::Joining => "Entro en tu canal de voz.",
        VoiceReply::Already => "Ya estoy en tu canal de voz.",
        VoiceReply::Elsewhere => "Estoy en otro canal de voz de este servidor. Con `/leave` salgo primero de él.",
        VoiceReply::Absent => "Aquí no estoy en ningún canal de voz. Con `/join` entro en el tuyo.",
        VoiceReply::NotThere => "No estás en ningún canal de voz. Entra primero en uno.",
        VoiceReply::NotAllowed => "Los operadores de este bot no te permiten moverme entre canales de voz.",
        VoiceReply::Full => "Ya estoy en demasiados canales de voz. Inténtalo de nuevo más tarde.",
        VoiceReply::TooManyHeard => {
            "Aquí ya oigo a tantos miembros como puedo. Inténtalo de nuevo cuando uno de ellos se haya ido."
        }
        VoiceReply::Leaving => "Salgo del canal de voz.",
        VoiceReply::Listening => {
            "Desde ahora te oigo en mi canal de voz. Lo que dices se transcribe, aparece en el chat de texto y es tu pregunta. Tu voz no se guarda. `/listen switch: off` lo termina."
        }
        VoiceReply::Deaf => "Ya no te oigo.",
        VoiceReply::NoHearing => {
            "No puedo oír: los operadores de este bot no han puesto reconocimiento de voz. Digo mis respuestas a lo que escribes."
        }
        VoiceReply::Failed => "Lo siento, no funcionó. Ejecútalo de nuevo en un minuto.",
    },
    voice_notice: |notice| match notice {
        VoiceNotice::Joined { hears } => {
            let hears = if *hears {
                " Solo oigo a los miembros que ejecutan `/listen`."
            } else {
                " No oigo a ningún miembro."
            };
            format!("Estoy en este canal de voz y digo mis respuestas a las preguntas de su chat de texto.{hears}")
        }
        VoiceNotice::Listens(name) => format!("Desde ahora oigo a {name}, porque lo pidió. Las voces no se guardan."),
        VoiceNotice::Deaf(name) => format!("Ya no oigo a {name}."),
        VoiceNotice::Lost => {
            "Perdí la conexión con este canal de voz y salí de él. Con `/join` vuelvo a entrar.".to_owned()
        }
    },

    default_answers: |row| format!("Te responde el modelo predeterminado, `{row}`."),
    chose: |row| format!("Elegiste `{row}`."),
    choice_gone: |row| format!("Elegiste `{row}`, que ya no existe."),
    no_other: "No hay otro modelo para elegir.",
    can_choose: "Puedes elegir con `/model row:`",
    default_mark: "predeterminado",
    model_chosen: |row| format!("Desde tu próximo mensaje te responde `{row}`, en todos los canales."),
    may_be_lost: "En este momento no puedo acceder a mi almacén, así que un reinicio puede deshacer esto.",
    model_default: |row| {
        format!("Desde tu próximo mensaje te responde el modelo predeterminado, que ahora es `{row}`.")
    },
    no_such_model: |asked, rows| format!("No hay ningún modelo `{asked}`. Puedes elegir {rows}."),

    window: |whose, messages, tokens, span| {
        let who = whose.map_or_else(|| "Has".to_owned(), |whose| format!("{whose} ha"));
        let ([messages, messages_max], [tokens, tokens_max]) = (messages, tokens);
        format!(
            "{who} usado {messages} de {messages_max} mensajes y {tokens} de {tokens_max} tokens (intervalo: {span})."
        )
    },
    account: |scope, [used, most], span| {
        let who = match scope {
            Scope::Member => "Tú",
            Scope::Role => "Tu rol",
            Scope::Channel => "Este canal",
            Scope::Key => "Esta clave",
            Scope::Tool => "Esta herramienta",
            Scope::Guild => "Este servidor",
        };
        format!("{who}: {used} de {most} (intervalo: {span}).")
    },
    amounts: ["mensajes", "tokens", "llamadas"],
    exempt: "Estos límites no se aplican: un rol está exento de ellos.",
    accepted: |moment| format!("El próximo mensaje se aceptará {moment}."),
    standing_unknown: "En este momento no puedo decir cuánto de los límites se ha usado.",
    sums: ["Hoy", "Siete días", "En total"],
    nothing: "nada",
    tokens: |tokens| format!("{tokens} tokens"),
    for_messages: |count| format!(" por {}", many(count, "mensaje", "mensajes")),
    unpriced: " y uso sin precio",
    cached: |cached| format!(" ({cached} de ellos de una caché)"),
    all_today: "Todos los miembros hoy",
    tools_today: "Herramientas hoy",
    calls: |calls, failed| {
        let failed = if failed > 0 { format!(", {failed} con error") } else { String::new() };
        format!("{}{failed}", many(calls, "llamada", "llamadas"))
    },
    experiments: "Experimentos",
    answers: |count| many(count, "respuesta", "respuestas"),
    apologies: |count| many(count, "disculpa", "disculpas"),
    repaired: |count| format!("{count} con reparación"),
    took: |half, most| format!("la mitad en {half} s, el 95 % en {most} s"),

    down: |part, why| format!("**{part} no funciona**: {why}"),
    rejected: |why| format!("**Los archivos cambiados no están en vigor**: {why}"),
    all_up: "Todas las partes funcionan.",
    up_for: "En marcha desde hace",
    configuration: "Configuración",
    shards: "Shards",
    connected: |up, all| format!("{up} de {all} conectados"),
    models: "Modelos",
    left_alone: |rows| format!("en pausa: {rows}"),
    store: "Almacén",
    store_works: "funciona",
    store_fails: "falla; los datos se guardan en memoria",
    turns: "Preguntas",
    turns_so_far: |now, all| format!("{now} en curso, {all} desde el inicio"),
    in_use: "En uso",
    queues: "Colas",
    empty: "vacías",
    restarts: "Reinicios",
    none: "ninguno",
    limits: "Límites de cada miembro",
    limits_are: |messages, tokens, span| format!("{messages} mensajes, {tokens} tokens en {span}"),
    memory: "Memoria",

    no_tools: "Ningún servidor de herramientas está conectado, así que respondo con lo que sé y con nuestra conversación.",
    tools: "**Herramientas**",
    without_tools: "sin herramientas",
    own_tools: "las mías",
    resources: "Nómbralos en una pregunta para adjuntarlos:",
    no_resources: "No hay recursos que puedas leer.",
    not_listed: "no se puede mostrar ahora; inténtalo más tarde",
    held_back: |tools| format!("cambiadas y retenidas hasta que un operador ejecute `/refresh_tools`: {tools}"),
    list_verified: |at| format!("lista verificada {at}"),
    more_names: |tools, more| format!("{tools} y {more} más"),
    no_lists: "Ningún servidor de herramientas está conectado, así que no hay ninguna lista que recargar.",
    reading_lists: |servers| {
        format!(
            "Recargo las listas de {}: `/tools` muestra el resultado.",
            many(servers, "servidor de herramientas", "servidores de herramientas")
        )
    },
    nothing_waits: "Ninguna llamada a herramientas espera aprobación.",
    waiting: "**A la espera de aprobación**",
    waits: |tool, place, who, until| format!("`{tool}` en {place} para {who}, caduca {until}"),
    nothing_allowed: "Ninguna llamada a herramientas está permitida de antemano.",
    allowed: "**Permitido por un tiempo** (se retira con `/approvals withdraw:` y el identificador)",
    allows: |id, tool, place, whose, until| {
        let whose = whose.map_or_else(|| "todos allí".to_owned(), str::to_owned);
        format!("`{id}`: `{tool}` en {place} para {whose}, termina {until}")
    },
    withdrawn: |id| format!("`{id}` queda retirado: la llamada vuelve a necesitar aprobación."),
    no_such_allowance: |id| format!("No hay ningún `{id}` que puedas retirar; `/approvals` muestra lo permitido."),
    refreshed: |version| {
        format!(
            "Estoy recargando mis prompts y ajustes, y escribo una nueva línea de estado si está activada. Si los archivos han \
             cambiado y son válidos, `/status` muestra una configuración distinta de `{version}`."
        )
    },

    help: "Respondo cuando me mencionas o respondes a uno de mis mensajes. Recuerdo lo que tú y yo hemos dicho últimamente en este canal. No veo nada de otros miembros ni de otros canales, salvo un mensaje al que respondas.",
    help_alone: "Aquí respondo a cada uno de tus mensajes. Recuerdo lo que tú y yo hemos dicho últimamente en esta conversación, y no veo ninguna otra.",
    help_direct: "También puedes escribirme directamente.",
    help_commands: "**Comandos** (solo tú ves las respuestas)",
    help_kept: "**Lo que guardo**: nuestros últimos mensajes en cada conversación, durante un tiempo; lo que me pediste recordar; tus ajustes; tus llamadas a herramientas; cuántos tokens has usado. Se queda en el almacén de este bot; tus preguntas se envían al modelo que responde. `/export` te lo muestra todo, `/forget` lo borra.",
};
