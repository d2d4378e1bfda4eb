"""The form of the tables of refusals, and what tools are for.

Each language is a table of slots (lists of phrases) and of rules that put slots together. The notation is that of
regular expressions, with three conveniences: `{slot}` stands for one of its phrases, `{~20}` for up to twenty
characters, and a plain group does not capture. Texts are folded first (`refusals.fold`): lower case, no accents, no
commas, no hyphens, straight apostrophes.
"""

from __future__ import annotations

from typing import Literal

import msgspec

#: What must be known of a matching sentence before its rule counts. `nothing`: only that no tool was asked for that is
#: not there. `unless_other`: that it does not name what no tool on offer is for. `object`: that it names what a tool on
#: offer is for, or something as broad as live data. `topic`: that it names what a tool on offer is for. `self`: that
#: the model speaks of itself, and does not name what no tool on offer is for. `part`: that the model speaks of itself,
#: names what a tool on offer is for, and denies nothing that is unrelated; `part_here`: the same, or that it is so
#: here.
Need = Literal["nothing", "unless_other", "object", "topic", "self", "part", "part_here"]


class Rule(msgspec.Struct, frozen=True):
    """One way to say it."""

    name: str
    category: Literal["no_tools", "cannot_access"]
    need: Need
    pattern: str


class Topic(msgspec.Struct, frozen=True):
    """Something that a tool may be for: words in the names of tools, and words in sentences, all languages together."""

    name: str
    names: str
    words: str


class Broad(msgspec.Struct, frozen=True):
    """A topic whose tools serve other topics as well."""

    name: str
    names: frozenset[str]
    covers: frozenset[str]


class Language(msgspec.Struct, frozen=True):
    """The phrases of one language.

    Slots that every language has:
        live, generic: objects so broad that any tool that looks something up would serve.
        self: the speaker, or what it speaks through.
        report: a failure is being reported, or its cause given, which is an answer.
        meta: the sentence speaks about texts or refusals.
        condition, missing: it holds only in some case, or until the user has said more.
        others (where the grammar of the rules does not tell): somebody else is the subject, not the speaker.
        harm, decline, brief: safety: reasons, phrases with a reason, phrases that need none.
        ask, offer: asking for permission; `choice`: but a choice is a real question; `grave`: and so is a grave step.
        intend, act, progress: announcing; `waits`: but for the user to do something first, or to explain.
        advise: telling the user to do it.
        weak: how a sentence begins that holds no answer.
    """

    name: str
    slots: dict[str, str]
    #: What may stand anywhere in the opening of a refusal without deciding anything.
    filler: str
    #: How a refusal opens: sequences of phrases. Only groups, `|` and `?` here: the phrases are spelled out.
    openers: tuple[tuple[str, ...], ...]
    rules: tuple[Rule, ...]


def rules(*rows: tuple[str, Literal["no_tools", "cannot_access"], Need, str]) -> tuple[Rule, ...]:
    """Rules from the rows of a table."""
    return tuple(Rule(*row) for row in rows)


#: Rules, of any language, by which a model says that it has no tools at all. What the others of `no_tools` say may be
#: true of a tool that was called and failed: that it does not work, cannot be used, is switched off.
DENIES_TOOLS = frozenset(
    "no_tools none_here made_none no_such_tool unconnected text_only no_access_to_tools no_tool_lets_me if_only "
    "lacking without strange_tool".split()
)

#: What tools are for. Names of tools are English almost everywhere; sentences are not.
TOPICS: tuple[Topic, ...] = (
    Topic(
        "files",
        "file files dir directory folder folders path read write edit ls glob cat grep document "
        "documents doc docs workspace filesystem fs pdf csv notes note",
        "files?|[\\w-]+\\.(?:txt|md|py|js|ts|ya?ml|json|csv|pdf|docx?|xlsx?|html?|toml|ini|log|sql|php|java|go|rs|c|h|"
        "sh|cfg|conf|env)|filesystem|folders?|director(y|ies)|documents?|disk|dateien?|dateisystem\\w*|ordner\\w*|"
        "verzeichnis\\w*|dokumente?n?|festplatte|fichiers?|dossiers?|repertoires?|disque|archivos?|ficheros?|"
        "carpetas?|directorios?|documentos?|disco|文件|目录|磁盘|文档|本地|档案|ファイル|フォルダ\\w*|"
        "ディレクトリ|ドキュメント|文書",
    ),
    Topic(
        "web",
        "web search browse browser fetch http url page google bing internet crawl scrape news wiki "
        "wikipedia download link site online",
        "internet|web|websites?|web ?pages?|online|browse\\w*|browsing|urls?|links?|google|search engines?|"
        "search results|sites?|im netz|webseiten?|suchmaschine\\w*|surfen|en ligne|navigateur|pages? web|liens?|"
        "moteur|la red|en linea|navegar|navegador|paginas?|enlaces?|sitios?|互联网|网络|网页|网站|联网|上网|"
        "链接|浏览器|搜索引擎|网上|インターネット|ウェブ\\w*|ネット|サイト|ページ|オンライン|ブラウザ|ブラウズ|"
        "リンク|url|web",
    ),
    Topic(
        "code",
        "run shell exec execute bash command terminal python code script sandbox interpreter process cmd repl",
        "commands?|code|scripts?|terminal|shell|programs?|sandbox|python|bash|befehle?n?|programme?n?|skripte?|"
        "konsole|commandes?|codes?|programmes?|comandos?|codigo|programas?|consola|命令|代码|脚本|程序|终端|"
        "コマンド|コード|スクリプト|プログラム|ターミナル|シェル",
    ),
    Topic(
        "weather",
        "weather forecast temperature climate meteo rain",
        "weather|forecasts?|temperatures?|wetter\\w*|vorhersage\\w*|temperatur\\w*|meteo\\w*|previsions?|"
        "clima\\w*|pronosticos?|temperaturas?|el tiempo en|天气|气温|天气预报|预报|气象|天気\\w*|気温|予報|気象",
    ),
    Topic(
        "time",
        "time date clock now datetime timezone day",
        "the time|what time|current time|time is it|local time|today's date|current date|clock|watch|what day|"
        "wie spat|uhr|montre|horloge|quelle heure|reloj|que hora|时钟|钟表|何時|時計|"
        "uhrzeit|datum|heure|la date|la hora|fecha|时间|日期|几点|時刻|時間|日付|日時",
    ),
    Topic(
        "mail",
        "mail email mails emails gmail inbox outlook smtp send reply draft newsletter",
        "e ?mails?|inbox|mailbox|postfach|posteingang|mails?|courriels?|boite|messagerie|correos?|bandeja|邮件|"
        "邮箱|电子邮件|メール|受信(箱|トレイ)",
    ),
    Topic(
        "message",
        "message messages slack sms chat notify notification telegram whatsapp discord teams post tweet send channel",
        "messages?|slack|sms|text messages?|notifications?|tweets?|channels?|nachrichten?|benachrichtigung\\w*|kanale?|"
        "mensajes?|notificaci\\w+|canal\\w*|消息|短信|通知|频道|メッセージ|通知|チャンネル|slack",
    ),
    Topic(
        "calendar",
        "calendar event events meeting meetings schedule appointment appointments agenda reminder "
        "reminders remind alarm timer todo task tasks",
        "calendars?|schedules?|meetings?|appointments?|events?|reminders?|alarms?|timers?|kalender\\w*|"
        "termine?n?|besprechung\\w*|erinnerung\\w*|wecker|agenda|calendriers?|rendez vous|reunions?|rappels?|"
        "evenements?|calendarios?|citas?|reuniones|reunion|eventos?|recordatorios?|alarmas?|日历|日程|会议|提醒|"
        "闹钟|安排|カレンダー|予定|会議|リマインダー|アラーム|スケジュール|タイマー",
    ),
    Topic(
        "database",
        "database db sql query table tables record records postgres mysql sqlite select warehouse rows",
        "databases?|sql|tables?|records?|quer(y|ies)|datenbank\\w*|tabellen?|abfragen?|bases? de donnees|"
        "requetes?|bases? de datos|consultas? sql|tablas?|registros?|数据库|数据表|データベース|テーブル|"
        "レコード|sql",
    ),
    Topic(
        "finance",
        "stock stocks price prices quote finance exchange currency rate rates crypto bitcoin ticker market convert",
        "stocks?|stock prices?|prices?|exchange rates?|currency|currencies|market|bitcoin|crypto\\w*|shares?|"
        "aktien\\w*|kurse?n?|preise?n?|wechselkurs\\w*|cours (?:de|du|actuel)|en bourse|"
        "prix|taux|bourse|acciones|accion|precios?|"
        "cotizacion\\w*|tipos? de cambio|bolsa|股票|股价|价格|汇率|行情|比特币|株価|価格|為替|レート|株式|相場",
    ),
    Topic(
        "bank",
        "invoice invoices payment payments bank balance transaction transactions billing",
        "bank\\w*|account balance|balances?|transactions?|invoices?|kontostand|konto|rechnung\\w*|bankkonto|solde|"
        "compte bancaire|factures?|bancaire|saldo|cuenta bancaria|facturas?|余额|银行|发票|残高|口座|請求書|銀行",
    ),
    Topic(
        "travel",
        "flight flights hotel hotels book booking travel trip train trains map maps route directions "
        "location geocode place places restaurant restaurants traffic distance ticket transit nearby",
        "flights?|路况|taxis?|rides?|打车|叫车|出租车|タクシー|hotels?|trains?|trips?|routes?|maps?|traffic|"
        "restaurants?|bookings?|reservations?|location|"
        "directions|flug\\w*|fluge|zuge?|hotels?|karte|verkehr\\w*|standort|buchung\\w*|reservierung\\w*|vols?|"
        "trajets?|itineraires?|carte|trafic|trains?|reservations?|vuelos?|hoteles|trenes|rutas?|mapas?|trafico|"
        "ubicacion|reservas?|restaurantes?|航班|酒店|火车|路线|地图|交通|餐厅|预订|位置|机票|フライト|航空券|"
        "ホテル|電車|ルート|地図|交通|レストラン|予約|位置情報",
    ),
    Topic(
        "home",
        "light lights lamp device devices thermostat home heating door lock camera music play song songs "
        "playlist spotify volume tv switch speaker",
        "lights?|lamps?|devices?|thermostat|music|songs?|playlists?|heating|smart home|licht\\w*|lampen?|"
        "gerate?n?|thermostat|musik|heizung|lieder?|lumieres?|lampes?|appareils?|musique|chansons?|chauffage|"
        "luces|luz|lamparas?|dispositivos?|musica|canciones|cancion|calefaccion|termostato|灯|设备|音乐|歌曲|"
        "空调|暖气|照明|電気|ライト|デバイス|音楽|曲|エアコン|暖房",
    ),
    Topic(
        "records",
        "order orders customer customers user users account crm ticket tickets issue issues contact "
        "contacts inventory product products catalog shipment tracking package employee hr delivery "
        "profile booking",
        "orders?|customers?|accounts?|tickets?|contacts?|inventory|products?|shipments?|packages?|parcels?|deliver(y|"
        "ies)|employees?|profiles?|user data|bestell\\w+|kunden\\w*|konto|kontakte?n?|lager\\w*|produkte?n?|"
        "sendung\\w*|pakete?s?|lieferung\\w*|commandes?|clients?|comptes?|stocks?|produits?|colis|livraison\\w*|"
        "pedidos?|clientes?|cuentas?|contactos?|inventario|productos?|envios?|paquetes?|entregas?|订单|客户|"
        "账户|工单|联系人|库存|产品|包裹|快递|物流|用户数据|注文|顧客|アカウント|チケット|連絡先|在庫|商品|荷物|"
        "配送",
    ),
    Topic(
        "repository",
        "git github gitlab repo repository commit branch pull merge issue issues pr code ci build deploy test tests",
        "repositor(y|ies)|repos?|github|gitlab|git|commits?|branch(es)?|pull requests?|issues?|builds?|codebase|"
        "tests?|code ?basis|depots?|repositorios?|ramas?|仓库|代码库|提交|分支|リポジトリ|コミット|ブランチ|"
        "テスト",
    ),
    Topic(
        "image",
        "image images picture photo draw generate screenshot camera ocr video vision",
        "images?|pictures?|photos?|screenshots?|videos?|screen|bilder|bild|fotos?|bildschirm\\w*|ecran|photos?|"
        "imagenes|imagen|pantalla|图片|图像|照片|截图|屏幕|视频|画像|写真|スクリーンショット|画面|動画",
    ),
    Topic(
        "language",
        "translate translation dictionary define spell",
        "translations?|dictionar(y|ies)|ubersetzung\\w*|worterbuch|traductions?|dictionnaires?|traduccion\\w*|"
        "diccionarios?|词典|字典|辞書|翻訳",
    ),
    Topic(
        "math",
        "calc calculator calculate math compute add sum evaluate convert",
        "calculat\\w+|comput\\w+|rechner|berechn\\w+|calculs?|calculatrice|calculos?|calculadora|计算|計算",
    ),
    Topic(
        "news",
        "news headlines search web article articles",
        "news|headlines?|nachrichten|schlagzeilen|actualites?|nouvelles|noticias?|新闻|头条|ニュース|最新情報",
    ),
    Topic(
        "health",
        "health patient patients medical doctor prescription fitness",
        "medical|health records?|patients?|prescriptions?|medizinisch\\w*|patienten\\w*|medica\\w+|patients?|"
        "historial medico|pacientes?|病历|医疗|患者|医療|カルテ",
    ),
)

#: What most of the world's tools get their answers from, and what a tool that searches it can find.
WEB_TOPIC = Broad(
    "web",
    frozenset("web search browse browser fetch http url google bing internet".split()),
    frozenset({"weather", "finance", "travel", "news", "time", "web"}),
)
#: A sentence that says that the web cannot be reached is about every tool of these topics.
REMOTE_TOPICS = frozenset({"weather", "finance", "travel", "news", "mail", "message", "records", "repository"})
#: Tools that run commands can do almost anything on the machine and beyond.
UNIVERSAL_TOPIC = Broad(
    "code",
    frozenset("shell exec execute bash command terminal python run cmd".split()),
    frozenset({"files", "web", "code", "time", "repository", "math", "database"}),
)
#: Characters of traditional Chinese that the tables hold in their simplified form.
TRADITIONAL = dict(
    zip(
        "沒無訪問實時資訊網檔執調個據庫為對請會嗎檢讀寫當間氣這開獲權應機語體檢詢現該夠連線號術獻幫運許說讓還來們過將啟錄郵電類數樣裡總結內處後務條種發點經",
        "没无访问实时资讯网档执调个据库为对请会吗检读写当间气这开获权应机语体检询现该够连线号术献帮运许说让还来们过将启录邮电类数样里总结内处后务条种发点经",
        strict=True,
    )
)
