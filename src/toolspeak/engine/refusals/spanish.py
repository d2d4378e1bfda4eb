"""How models decline, announce and ask in Spanish: words, not code.

The notation is explained in `refusals.words`, which sits below; `refusals`, above, compiles and matches. Texts are
folded before they are matched, so there are no accents here: `¿Qué día?` is `que dia?`.
"""

from __future__ import annotations

from .tables import Language, rules

SPANISH = Language(
    "es",
    {
        "adv": "actualmente|lamentablemente|desafortunadamente|directamente|por el momento|ahora mismo|"
        "en este momento|aqui|realmente|tampoco|por desgracia|todavia",
        "have_no": "no (tengo|dispongo de|poseo|cuento con|dispongo)|carezco de|no (se me|me) (ha|"
        "han) (proporcionado|dado|facilitado|asignado|otorgado|concedido)|no estoy conectado a|me faltan?|"
        "no (existe|existen|hay|tengo instalad\\w+|tengo conectad\\w+|veo)",
        "cannot": "no (puedo|podria|podemos|consigo)|no (soy capaz|estoy capacitado|estoy en condiciones|"
        "estoy disenado|me es posible|es posible para mi)( de| para)?|no (tengo|dispongo de|cuento con|"
        "poseo) (({adv}) )?(la |ninguna |una )?(capacidad|posibilidad|habilidad|forma|manera|medio|"
        "facultad)( de| para)?|me (es|resulta) imposible|soy incapaz de|carezco de la capacidad|no (logro|"
        "alcanzo a|me resulta posible|me esta permitido|se me permite|figura|forma parte de mis \\w+|"
        "esta entre mis \\w+|estan entre mis \\w+)|nunca (se me|me) (dio|ha dado|han dado) la (capacidad|"
        "posibilidad)|(es|resulta) imposible para mi|no hay (forma|manera|modo) de que (yo )?|no (tengo|"
        "cuento con|dispongo de) (ningun |un )?(mecanismo|medio|modo)",
        "tools": "(herramientas?|funciones|funcion|plugins?|complementos?|apis?|llamadas? a (herramientas|"
        "funciones))|⌘|extensiones|extension|servicios? externos?|funciones externas|modulos?",
        "mods": "acceso|a|al|las?|los?|el|un|una|ninguna?|ningun|de|del|externas?|disponibles?|necesarias?|"
        "adecuadas?|esas?|estas?|tales|directo|propias?|especificas?|con|que|usar|ese|este|alguna?|integradas?|"
        "ni|llamada|funcion|herramienta|servicio|mi entorno|instalad\\w+|conectad\\w+|por|que|mencionas|llamada|"
        "plugins|de|ni",
        "live": "en tiempo real|tiempo real|actual(es|izad\\w+|mente)?|al dia|en vivo|recientes?|en directo|"
        "ultim[oa]s?|de hoy|ahora mismo|ahora|hoy|en este momento|que hora|del dia|actualmente|en este instante",
        "generic": "{live}|extern\\w+|esa (informacion|solicitud|tarea)|esta (informacion|solicitud|tarea)|"
        "esos datos|estos datos|hacerlo|eso (por ti|por usted|directamente)|tu solicitud|su solicitud|"
        "lo que (pides|solicitas)|esa consulta",
        "purpose": "(para|que|capaz|capaces|con)",
        "do": "acceder|consultar|abrir|leer|ver|verificar|comprobar|buscar|recuperar|obtener|ejecutar|navegar|"
        "realizar|enviar|crear|modificar|descargar|conectar\\w*|visitar|mostrar|visualizar|interactuar|escribir|"
        "eliminar|listar|reservar|controlar|usar|revisar|mirar|acceso|examinar|encender|agregar|anadir|guardar|"
        "explorar|consultarl[oa]|abrirl[oa]|leerl[oa]|hacerl[oa]|hacer|llamar|explorar|comprobarl[oa]|"
        "revisarl[oa]|buscarl[oa]|ejecutarl[oa]|verl[oa]|programar",
        "tell": "decir\\w*|dar\\w*|proporcionar\\w*|ofrecer\\w*|indicar\\w*|facilitar\\w*|informar\\w*|saber|"
        "conocer|brindar\\w*",
        "self": "yo|me|mi|mis|soy|puedo|tengo|estoy|genero|produzco|escribo|"
        "(este|esta) (chat|modelo|asistente|conversacion)|ia|modelo de \\w+",
        "report": "un error|el error|error (de|al)|errores (de|al)|no existe\\w*|no (se )?encontr\\w+|"
        "denegad\\w+|bloquead\\w+|cifrad\\w+|corrupt\\w+|danad\\w+|vaci[oa]|(ha|han) fallado|fallo (la|el|"
        "al) (consulta|busqueda|llamada|herramienta|peticion)|devolvi\\w+|devuelve|caducad\\w+|expir\\w+|"
        "agotad\\w+|(http|status|code|error|fehler|erreur|错误|エラー) ?[45][0-9][0-9]|[45][0-9][0-9] (not|"
        "forbidden|error|unauthorized|internal)|porque (el|la|los|las|ese|este|esta|no)|ya que (el|la)|segun|dicen?|"
        "(he|hemos) (intentado|probado|revisado|buscado|consultado|comprobado)|no (pude|he podido|logre)|"
        "protegid\\w+|resultado\\w* (de|indica)|mientras|en (este|el|ese|tu|su) (archivo|codigo|modulo|script|"
        "proyecto|repositorio|fichero)|el archivo (no )?contiene",
        "meta": "frase|oracion|traduc\\w+|borrador|aqui (tienes|tiene|esta)|plantilla|ejemplo|significa|asunto|"
        "estimad\\w+|querid\\w+|cita\\b|(modelos|asistentes|chatbots) (dicen|responden|suelen)|historia|"
        "un cuento|el cuento|negativa|quiere decir",
        "condition": "^(si|cuando|en caso|aunque si|incluso si)\\b",
        "missing": "sin (saber|conocer|el|la|los|las|un|una|mas|tu|su|que)|hasta que|antes de que|a menos que|"
        "todavia\\b|aun\\b|mientras no",
        "harm": "ilega\\w+|dan[io]\\w*|peligros\\w+|poco etic\\w+|etic\\w+|malicios\\w+|malware|phishing|armas?|"
        "explosiv\\w+|directrices|politicas?|normas|principios|viola\\w*|violencia|fraud\\w+|hackear|pirate\\w+|"
        "drogas?|bomba\\w*|privacidad|consentimiento|perjudic\\w+|ilicit\\w+|odio|delit\\w+|criminal\\w*|"
        "estafa\\w*|no autorizad\\w+|eludir|sin permiso|la ley|ley de|prohibid\\w+|letal\\w*|robo|robar|"
        "falsific\\w+|suicid\\w*|suplant\\w*|sin (su|el) (consentimiento|permiso|conocimiento)|"
        "protegid[oa]s? por",
        "decline": "(({cannot})|no (voy a|debo|quiero|estoy dispuesto)|debo (rechazar|negarme|declinar)|"
        "me niego)\\b|no (\\w+re|debo|pienso|quiero|es correcto)\\b|me abstengo|prefiero no",
        "brief": "no (puedo|voy a|podre) (ayudarte|ayudarle|ayudar|asistirte|asistirle|cumplir|hacer eso|"
        "hacerlo|colaborar|atender|apoyar|realizar esa|participar|continuar)( con| en| a)?( eso| esto|"
        " esa solicitud| esa peticion| esta solicitud| esa accion| tu solicitud| su solicitud| ese tipo de \\w+|"
        " con eso)?[.!;\\n]|debo (rechazar|declinar)|me niego",
        "ask": "importa (si|que)|molesta (si|que)|inconveniente en que|problema (si|en que)|"
        "(quieres|quiere|deseas|desea|te gustaria|le gustaria|prefieres|necesitas) que|(puedo|debo|"
        "deberia) \\w+|me (permites|permite|autorizas|autoriza)|te parece bien (si|que)|le parece bien (si|que)|"
        "tengo tu permiso|tengo su permiso|estas de acuerdo en que|procedo|(quieres|quiere|deseas|desea|"
        "te parece|le parece|prefieres|me dejas|me deja|puedo|debo|procedo|te importa|le importa|"
        "estas de acuerdo|esta de acuerdo|permiso|estaria bien|seria correcto|me das|me da|te gustaria|"
        "le gustaria|(lo|la|los|las) (busco|consulto|reviso|miro|ejecuto|abro|leo|compruebo|hago))|(te|"
        "le) (serviria|sirve|interesa|ayudaria|parece|va bien)|que (te|le) parece|adelante|si o no|de acuerdo",
        "offer": "si (lo )?(quieres|deseas|quiere|desea|te parece|prefieres|lo autorizas|lo autoriza|"
        "estas de acuerdo)|con (tu|su) (permiso|autorizacion)|(dime|digame|avisame|aviseme|hazme saber|"
        "hagame saber) (si|y)|(por favor )?(confirma|confirme|confirmame)|solo (dime|digame|avisame)|(dime|"
        "digame|avisame|aviseme|hazmelo saber|hagamelo saber|confirmame|confirmeme|solo tienes que|"
        "solo tiene que|basta con que|con que me digas|si me das|si me da|cuando (quieras|quiera|digas|diga)|"
        "necesito (tu|su) (permiso|autorizacion|confirmacion|visto bueno)|si te parece|si le parece|"
        "si lo (deseas|desea|prefieres|autorizas))|(responde|responda|escribe|escriba|di|diga|contesta|"
        "conteste)( \\w+){0,2} (_|si|ok|adelante)|estoy list[oa]|espero (tu|su)|quedo a la espera|"
        "antes de (hacerlo|ejecutar\\w*|proceder|consultar\\w*|abrir\\w*|empezar)|en cuanto (me )?(confirmes|"
        "confirme|des|de)",
        "choice": "\\b(o|u)\\b(?! (_|no|nein|non|not)\\b| _)|^.{0,14}\\b(cual\\w*|donde|quien|cuando|cuant\\w+|"
        "que (ciudad|archivo|fecha|\\w+ (prefieres|prefiere)))\\b|en lugar",
        "grave": "elimin\\w+|borr\\w+|sobrescrib\\w+|pag(ar|o|ue)\\w*|transf\\w+|compr(ar|e|o)\\b|cancel\\w+|"
        "public\\w+|irreversible\\w*|permanente\\w*|restablec\\w+|desinstal\\w+|despleg\\w+|definitiv\\w+|"
        "formate\\w*|destru\\w*|atac\\w*",
        "more": "tambien|algo mas|otra cosa|mas (detalles|informacion|sobre)|expli\\w+|resum\\w+|detall\\w+|"
        "profundi\\w+|adicional\\w*|ademas|aclar\\w+|otr[oa]s?\\b",
        "intend": "empecemos|(yo )?(haria|buscaria|leeria|ejecutaria|consultaria|miraria)|me pongo|comencemos|"
        "voy a|vamos a|dejame|dejeme|permiteme|permitame|(lo )?(buscare|consultare|verificare|usare|"
        "utilizare|llamare|revisare|comprobare|ejecutare|abrire|leere|hare|obtendre|mirare|procedere|enviare|"
        "creare|usaria|utilizaria|llamaria|consultaria)|debo|deberia|necesito|tengo que|hay que|"
        "el siguiente paso|procedo a|ahora (busco|consulto|reviso|verifico|ejecuto|llamo)|(busco|consulto|"
        "reviso|verifico|compruebo|uso|ejecuto|leo|abro|miro)\\b|(creo|envio|reservo|anado|agrego|hago|preparo|"
        "abro|calculo|lanzo|busco|pongo|consulto|ejecuto|reviso|inicio|empiezo|actualizo|guardo)\\b|use|usa|"
        "utiliza|utilice|llama a|llame a|ejecuta|ejecute|estoy (buscando|consultando|revisando|ejecutando|"
        "abriendo|comprobando|creando|mirando|leyendo)|\\w++(?<=\\w[aei]re)(?<!\\bhere)(?<![tw]here)"
        "(?<!\\bwere)|[tl](e|(?<=l)[ao]s?) \\w++((?<=\\wo)|(?<=\\w[aei]re))",
        "advise": "(puedes|podrias|deberias|puede|podria) (usar|llamar|utilizar|ejecutar)",
        "act": "apunt\\w+|anot\\w+|agreg\\w+|anad\\w+|"
        "busc\\w+|consult\\w+|verific\\w+|us(ar|are|aria|o)\\b|utiliz\\w+|llam\\w+|revis\\w+|comprob\\w+|"
        "comprueb\\w+|ejecut\\w+|abr\\w+|le(er|ere|o)\\w*|mir\\w+|obten\\w+|hac\\w+|hare|haga|proced\\w+|"
        "recuper\\w+|ver\\b|calcul\\w+|list\\w+|invoc\\w+|acced\\w+|envi\\w+|cre(ar|are|e)\\b|continu\\w+|"
        "encontrar|echar un|realic\\w+|realiz\\w+|investig\\w+|lea|busqu\\w+|revis\\w+|ejecut\\w+|lea\\b|leer|"
        "abra|mire|haga|us[eo]\\b|lanz\\w+|explor\\w+|recorr\\w+|consult\\w+|echar|echo|compruebe|inici\\w+|"
        "empez\\w+|determin\\w+|averig\\w+|saqu\\w+|hacerl[oa]|buscarl[oa]|cargar|pas[eo]\\b|creo|envio|reservo|"
        "anado|agrego|preparo|calculo|lanzo|pongo|buscando|consultando|revisando|abriendo|creando|guardo|inicio",
        "progress": "^(buscando|consultando|verificando|revisando|ejecutando|leyendo|abriendo|obteniendo|"
        "comprobando|llamando|accediendo)\\b",
        "waits": "cuando (me|tu|usted)|si (me|tu|usted)|en cuanto (me|tu)|una vez que (me|tu)|expli\\w+|"
        "record\\w+|recomend\\w+|sug(iero|erir)|en tu (codigo|programa|script|terminal|proyecto)|por ejemplo|"
        "ayudar\\w*|mostrar\\w*|propon\\w+|suponer|dar\\w* (un|una|unos)",
        "weak": "claro|por supuesto|desde luego|ok|vale|si\\b|entendido|de acuerdo|perfecto|muy bien|con gusto|"
        "puedo|podria|para |un momento|un segundo|un instante|espera|espere|por favor (espera|espere)|gracias|"
        "hola|luego|despues|primero|tengo (acceso|una herramienta|la)|la herramienta|con (la herramienta|eso)|"
        "ahora|esto (puede|va)|buena pregunta|dispongo|enseguida|a continuacion|seguro|dame|deme|bien|"
        "cuento con|genial|listo|depende|todo depende|antes de|necesitaria|tendria|plan|mi plan|habria|con ⌘|"
        "eso se puede|se puede|({wait})|(te |le |lo |la )?\\w+(are|ere|ire)\\b|(lo|la|te|le) \\w+o\\b|vamos|"
        "manos a|ya",
        "hedge": "depende\\w*|puede|pueden|podria\\w*|podrian|posible\\w*|probable\\w*|quiza\\w*|tal vez|"
        "seguramente|varias|varios|habria que|deberia\\w*|antes de|para (saber|acotar|ello|eso|averiguar)|"
        "no se (si|cual)|dificil|necesitaria|tendria que|se puede|contiene",
        "impersonal": "(el|mi) (primer|siguiente|proximo|ultimo) (paso|cosa)|(habria|hay|habra) que|(basta|"
        "bastaria) con|se (puede|podria|debe|deberia|usa|llama|necesita)|(primero|luego|despues|a continuacion|"
        "por ultimo|para ello|para eso) (se )?(llam\\w+|us\\w+|le\\w+|abr\\w+|ejecut\\w+|hay|habria)|pasos?|"
        "plan|(deberia|debe|puede|podria) (ser )?(llamad\\w+|usad\\w+|llamarse|usarse|ejecutarse)|(con|usando|"
        "mediante|llamando a|a traves de|por medio de) (la herramienta |la funcion )?⌘|(usaria|utilizaria|"
        "llamaria|invocaria|ejecutaria)",
        "contrast": "pero|sin embargo|aunque|sino",
        "past": "^(listo|hecho)|(esta|estan|queda) (ya )?(enviad|cread|guardad|hech|list|reservad)\\w+|"
        "he (usado|llamado|consultado|ejecutado|buscado|leido|abierto)|use\\b|llame\\b|ejecute\\b|"
        "consulte\\b|(el|los) resultados? (es|son|fue|fueron|muestra|muestran)|devolvio|segun|muestra|indica|"
        "encontre|encontro|termino|funciono",
        "doc": "recibe|acepta|espera|devuelve|es (un|una|la|el)|son (\\w+ )?(herramientas|funciones)|sirven?|"
        "permiten?|puedo|documentacion|diferencia|en lugar|significa|definida|obsoleta|mientras que",
        "wait": "(un|dame un|deme un) (momento|segundo|instante|minuto)|espera|espere|enseguida|ahora mismo|"
        "en seguida|voy con ello|marchando|me pongo|ya mismo",
        "ability": "(puedo|podria|podriamos|seria posible|es posible|tengo una herramienta|se puede|se podria)",
        "common": "el|la|los|las|y|es|son|de|del|que|en|por|para|usted|tu|su|yo|con|esto|esta|este|ser|no|puedo|"
        "voy|me|mi|sobre|al|o|si|un|una|pero|mas|sin|aqui|lo|se|te|le|como|hay|tengo|quieres|muy|ya|ahora|desde|"
        "donde",
        "needs": "habria que|tendria que|deberia|necesitaria|para (saber|acotar|ello|eso|averiguar|confirmar|"
        "verificar|comprobar)|lo mejor|hace falta|convendria|(la|lo) (mas rapido|mas sencillo|forma|mejor)|"
        "un vistazo|ejecutar|comprobar|descartar|salir de dudas",
    },
    "lo siento( mucho)?|lamento( mucho)?|lamentablemente|desafortunadamente|por desgracia|disculpa|disculpe|"
    "perdon|perdona|pero|sin embargo|como (ia|modelo|asistente|inteligencia artificial|un modelo|una ia)|"
    "de lenguaje|modelo|asistente|virtual|soy (solo )?(una ia|un modelo|un asistente)|y|que|hola|actualmente|"
    "por el momento|en este momento|ahora mismo|en esta (conversacion|sesion)|me temo|basado en texto|ia|yo",
    (
        (
            "no (puedo|podria|tengo|dispongo|poseo|cuento|soy capaz|me es|se me|me ha|me han|"
            "estoy conectad|estoy en|es posible)|"
            "no hay (ninguna )?(herramienta|funcion)|carezco|me (es|resulta) imposible|"
            "ninguna herramienta|las herramientas|mis conocimientos|"
            "mi (conocimiento|informacion)|la (funcion|herramienta)|los (enlaces|archivos)|como (ia|modelo)",
        ),
    ),
    rules(
        (
            "no_tools",
            "no_tools",
            "nothing",
            "({have_no}) (({mods}) ){0,7}({tools})\\b( (disponibles?|externas?))?(?P<purpose> {purpose}\\b)?",
        ),
        (
            "cannot_use_tools",
            "no_tools",
            "nothing",
            "({cannot})\\b{~25}(usar|utilizar|llamar|invocar|ejecutar|acceder|emplear|recurrir|"
            "hacer){~25}\\b({tools})\\b",
        ),
        (
            "none_here",
            "no_tools",
            "nothing",
            "\\bno hay (ninguna? )?(({mods}) ){0,3}({tools})\\b(?P<purpose> {purpose}\\b)?|"
            "\\bninguna ({tools}) (esta|disponible)|({tools}) no (estan|esta) (\\w+ )?disponibles?",
        ),
        (
            "no_access",
            "cannot_access",
            "object",
            "({have_no}) (({mods}|({adv})) ){0,3}(acceso|conexion|visibilidad|permiso)\\b",
        ),
        (
            "no_live_data",
            "cannot_access",
            "object",
            "({have_no})\\b{~30}\\b({live})\\b",
        ),
        (
            "cannot_do",
            "cannot_access",
            "object",
            "({cannot})\\b{~35}\\b({do})\\b",
        ),
        (
            "cannot_tell",
            "cannot_access",
            "object",
            "({cannot})\\b{~25}\\b({tell})\\b{~60}\\b({live})\\b",
        ),
        (
            "cutoff",
            "cannot_access",
            "topic",
            "mis? (conocimientos?|datos|informacion)( de entrenamiento)? (llegan?|esta|estan|se limitan?|solo|"
            "terminan?|termina|abarcan?)",
        ),
        (
            "no_such_tool",
            "no_tools",
            "nothing",
            "⌘{~15}\\bno (existe|esta|me|se|figura|funciona|aparece|es|forma|significa|la tengo|lo tengo|puedo|"
            "tengo)\\b|no (hay|tengo|existe|dispongo de|cuento con|veo) (\\w+ ){0,3}⌘|⌘{~25}(solo|simples|"
            "meras) (son )?(palabras|un nombre|nombres|texto)|({cannot})\\b{~30}⌘",
        ),
        (
            "unconnected",
            "no_tools",
            "unless_other",
            "no (estoy|tengo|hay) (\\w+ )?(conectad\\w+|vinculad\\w+|enlazad\\w+)|"
            "(no hay )?nada (\\w+ ){0,2}(conectado|enchufado|vinculado|instalado|configurado)|"
            "({tools}) no (estan|esta) (\\w+ )?(activad|conectad|configurad|instalad|habilitad|disponible|"
            "accesible)\\w*",
        ),
        (
            "text_only",
            "no_tools",
            "self",
            "(solo|unicamente|lo unico que|limitad\\w+ a|me limito a|simplemente|"
            "nada mas que) (\\w+ ){0,5}(texto|palabras)|(soy|como) (solo |unicamente |simplemente |"
            "meramente )(un )?(\\w+ )?(modelo de lenguaje|modelo de texto|chatbot|generador)",
        ),
        (
            "cannot_use_them",
            "no_tools",
            "unless_other",
            "({cannot})\\b{~15}(usar|llamar|invocar|ejecutar|utilizar|activar)(las|los|la|lo)",
        ),
        (
            "not_mine",
            "cannot_access",
            "topic",
            "no (forma|forman|esta|estan|figura|figuran) (\\w+ )?(parte de|entre) mis|no tengo (un |ningun |"
            "ni )?(reloj|calendario|navegador|pantalla|camara|terminal|buzon)|no (funciona|funcionan) (aqui|"
            "para mi|en mi)|no (se|conozco)\\b{~40}({live}|que hora)",
        ),
        (
            "out_of_reach",
            "cannot_access",
            "topic",
            "no (me|es|son|esta|estan) (\\w+ )?(resultan?|es|son|estan?)? ?(\\w+ )?(accesible|visible|posible|"
            "disponible)s?( para mi)?|(es|son|resulta) (inaccesible|invisible|imposible)s? para mi",
        ),
        (
            "no_access_to_tools",
            "no_tools",
            "nothing",
            "no (tengo|dispongo de|cuento con)( \\w+){0,2} acceso( \\w+){0,3} ({tools})|"
            "({cannot})( \\w+){0,3} (usar|utilizar|llamar|emplear|ejecutar)( \\w+){0,3} ({tools})",
        ),
        (
            "if_only",
            "no_tools",
            "object",
            "si (tuviera|pudiera|dispusiera|contara)|ojala (pudiera|tuviera)|me (gustaria|encantaria) (poder|"
            "hacerlo|ayudar\\w*)",
        ),
        (
            "lacking",
            "no_tools",
            "object",
            "({tools}|acceso|capacidad\\w*|posibilidad\\w*)( \\w+){0,2} (que|del que|de la que|de las que) (no|"
            "me falta)",
        ),
        (
            "only_shared",
            "cannot_access",
            "topic",
            "(solo|unicamente|solamente) (\\w+ ){0,4}(lo que|el texto que|la informacion que) (me|tu|usted|hay|"
            "aparece|escribes)|no (veo|conozco|se) mas que lo que",
        ),
        (
            "paste_it",
            "cannot_access",
            "topic",
            "(pega\\w*|copia\\w*|comparte\\w*|envia\\w*|manda\\w*|pasa\\w*|sube\\w*|pegue|copie|envie|"
            "comparta)( \\w+){0,4} (el|la|los|las|su|tu)( \\w+){0,2} (contenido|texto|salida|archivo|codigo|"
            "lineas|articulo|mensaje|resultado\\w*|correo|fragmento)",
        ),
        (
            "from_training",
            "cannot_access",
            "topic",
            "(se basa\\w*|provien\\w*|proceden?|viene\\w*|baso|partir)( \\w+){0,3} (mi|mis|de mi|en mi|de mis|"
            "en mis) (entrenamiento|datos)|mi\\w* (conocimiento|conocimientos|informacion|"
            "datos)( \\w+){0,4} (estatic\\w+|terminan?|limitad\\w+|desactualizad\\w+|acaban?|llegan?|hasta)",
        ),
        (
            "yourself",
            "cannot_access",
            "topic",
            "(tendras que|tendra que|debes|debe|deberas|tienes que|tiene que)( \\w+){1,8} (tu mismo|usted mismo|"
            "por tu cuenta|por su cuenta|manualmente)|(tu|usted) mism[oa]|por tu cuenta",
        ),
        (
            "cannot_act",
            "no_tools",
            "nothing",
            "({cannot})\\b{~20}(realizar|ejecutar|llevar a cabo|efectuar)( \\w+){0,3} acciones",
        ),
        (
            "no_idea",
            "cannot_access",
            "topic",
            "no tengo (ni )?(idea|informacion|conocimiento|datos|constancia|visibilidad|noticia)|(no se (si|que|"
            "cual\\w*|cuando|donde|quien|como|cuant\\w*)|desconozco|ignoro|no conozco|no veo (que|cual\\w*|si|donde|"
            "como))( \\w+){1,6}",
        ),
        (
            "as_of",
            "cannot_access",
            "topic",
            "(segun|hasta|desde) mi (ultim[oa] )?(actualizacion|entrenamiento)|mi (ultima actualizacion|"
            "ultimo entrenamiento|fecha de corte)",
        ),
        (
            "without",
            "no_tools",
            "nothing",
            "(yo|me|mi|aqui|esta|este)\\b{~40}sin (\\w+ ){0,2}({tools})\\b|(simple|puro) (chat|dialogo)( \\w+)?",
        ),
        (
            "someone_else",
            "no_tools",
            "topic",
            "(tendras que|tendra que|debes|debe|deberias|tienes que|tiene que|"
            "alguien tendria que)( \\w+){0,3} (llamar|ejecutar|lanzar|comprobar|abrir|enviar|consultar)\\w*",
        ),
        (
            "elsewhere",
            "cannot_access",
            "topic",
            "^(para( \\w+){1,8} )?((te|le) (recomiendo|sugiero|aconsejo)|por favor|puedes|puede|consulta|"
            "consulte|visita|visite|entra|prueba|lo mejor)( \\w+){0,10} (sitios?|webs?|pagina\\w*|"
            "aplicacion\\w*|apps?|servicios?|portal|[\\w-]+\\.(es|com|org|net)|en linea|buscador|google|aemet)",
        ),
        (
            "inactive",
            "no_tools",
            "nothing",
            "({tools})( \\w+){0,6} (no|ningun\\w*|nunca|ni)( \\w+){0,3} (cargad\\w+|activad\\w+|activ\\w+|"
            "configurad\\w+|disponible\\w*|presente\\w*|instalad\\w+|conectad\\w+|accesible\\w*|habilitad\\w+|"
            "proporcionad\\w+|operativ\\w+)\\b(?! (in|for) (the|your|this) (file|code|project))",
        ),
        (
            "strange_tool",
            "no_tools",
            "nothing",
            "⌘{~20}(desconocid\\w*|nada)|no conozco( \\w+){0,2} (⌘|({tools}))|nada que (pueda|llamar)",
        ),
        (
            "unseen",
            "cannot_access",
            "topic",
            "(me es|me son|me resulta)( \\w+)? (desconocid|ajen|ocult)\\w*|no veo (ningun|ninguna|el|tu|"
            "su) (archivo|adjunto|documento|imagen|enlace|correo)\\w*|(ningun|no hay) (archivo|adjunto|"
            "documento) (\\w+ ){0,2}(adjunto|compartido|subido)",
        ),
        (
            "not_working",
            "no_tools",
            "nothing",
            "({tools})( \\w+){0,4} no (funciona|sirve|va|responde|opera|anda)\\w*",
        ),
        (
            "nothing_lets",
            "no_tools",
            "object",
            "(nada|ningun\\w*)( \\w+){0,6} me (deja|deje|permit|habilit)\\w*",
        ),
        (
            "beyond_me",
            "cannot_access",
            "topic",
            "fuera de mis? \\w+|(me|escapa a mi) (supera|sobrepasa)\\w*|estoy( \\w+){0,2} (desconectad|aislad)\\w+|"
            "estoy( \\w+){0,2} sin conexion",
        ),
    ),
)
