"""Words that fill the slots of requests: places, people, things. Data only; `values` draws from it."""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return [each.strip() for each in text.replace("\n", " ").split(",") if each.strip()]


CITIES = _words("""Paris, London, Tokyo, Berlin, Madrid, Rome, New York, San Francisco, Chicago, Toronto, Sydney, Melbourne,
Mumbai, Delhi, Beijing, Shanghai, Seoul, Singapore, Dubai, Cairo, Lagos, Nairobi, Cape Town, Mexico City, Lima,
Buenos Aires, São Paulo, Boston, Seattle, Austin, Denver, Miami, Atlanta, Houston, Lisbon, Porto, Vienna, Prague,
Budapest, Warsaw, Stockholm, Oslo, Helsinki, Copenhagen, Dublin, Edinburgh, Brussels, Amsterdam, Zurich, Geneva, Munich,
Hamburg, Milan, Venice, Athens, Istanbul, Kyiv, Bangkok, Hanoi, Jakarta, Manila, Osaka, Kyoto, Portland, Phoenix,
San Diego, Las Vegas, Vancouver, Montreal, Reykjavik, Marrakesh, Bogotá, Santiago, Havana, Lyon, Nice, Turin, Naples,
Valencia, Seville, Krakow, Riga, Tallinn, Vilnius, Sofia, Bucharest, Zagreb, Belgrade, Accra, Quito, Perth, Auckland,
Wellington, Doha, Muscat, Tbilisi, Yerevan, Bristol, Leeds, Glasgow, Cork, Ghent, Basel, Graz, Bergen, Malmö, Tampere""")
US_CITIES = {
    "Austin": "TX Texas", "Seattle": "WA Washington", "Denver": "CO Colorado", "Miami": "FL Florida",
    "Boston": "MA Massachusetts", "Chicago": "IL Illinois", "Houston": "TX Texas", "Atlanta": "GA Georgia",
    "Phoenix": "AZ Arizona", "Portland": "OR Oregon", "San Diego": "CA California", "Las Vegas": "NV Nevada",
    "New York": "NY New York", "Dallas": "TX Texas", "Detroit": "MI Michigan", "Nashville": "TN Tennessee",
    "Orlando": "FL Florida", "Salt Lake City": "UT Utah", "New Orleans": "LA Louisiana",
    "Minneapolis": "MN Minnesota", "Oakland": "CA California", "Tampa": "FL Florida", "Omaha": "NE Nebraska",
    "Boise": "ID Idaho", "Raleigh": "NC North Carolina", "Columbus": "OH Ohio", "Milwaukee": "WI Wisconsin",
    "Santa Fe": "NM New Mexico", "Sacramento": "CA California", "Pittsburgh": "PA Pennsylvania",
}  # fmt: skip
COUNTRIES = _words("""France, Germany, Japan, Brazil, Canada, India, Kenya, Italy, Spain, Mexico, Australia, Norway, Sweden,
Egypt, Peru, Chile, China, Greece, Portugal, Poland, Vietnam, Thailand, Turkey, South Africa, Argentina, Ireland, Finland,
Austria, Switzerland, Morocco, Indonesia, New Zealand, Colombia, Denmark, Hungary, Nigeria, South Korea, Iceland, Belgium,
the Netherlands, Ukraine, Croatia, Nepal, Cuba, Ghana""")
STATES = _words("""California, Texas, New York, Florida, Illinois, Ohio, Georgia, Michigan, Washington, Arizona, Oregon,
Colorado, Nevada, Virginia, Massachusetts, Minnesota, Utah, Iowa, Kansas, Maine, Vermont, Alaska, Montana""")
FIRST = _words("""Alice, Bob, Carol, David, Emma, Frank, Grace, Henry, Isabel, Jack, Karen, Liam, Maria, Nathan, Olivia,
Peter, Quinn, Rachel, Samuel, Tina, Ursula, Victor, Wendy, Xavier, Yara, Zoe, Ahmed, Fatima, Wei, Yuki, Ravi, Priya, Carlos,
Sofia, Ivan, Anna, Tom, Sarah, Mike, Laura, John, Jane, Noah, Mia, Lucas, Elena, Omar, Aisha, Hiro, Ingrid, Pablo, Nadia""")
LAST = _words("""Smith, Johnson, Brown, Garcia, Miller, Davis, Martinez, Lopez, Wilson, Anderson, Taylor, Thomas, Moore, Lee,
White, Harris, Clark, Young, King, Wright, Hill, Scott, Green, Adams, Baker, Nguyen, Patel, Kim, Chen, Singh, Silva, Rossi,
Müller, Schmidt, Kowalski, Novak, Haddad, Okafor, Tanaka, Jensen, Larsson, Dubois, Moreau, Costa, O'Brien, Fischer""")
COMPANIES = _words("""Apple, Microsoft, Google, Tesla, Amazon, Netflix, IBM, Oracle, Intel, Siemens, Toyota, Samsung, Sony,
Airbus, Boeing, Nvidia, Adobe, Spotify, Pfizer, Nike, Adidas, Ford, Honda, Bosch, Shell, Visa, Acme Corp, Globex,
Northwind, Contoso, Bluebird Labs, Helios Energy""")
TICKERS = _words(
    "AAPL, MSFT, GOOG, TSLA, AMZN, NVDA, NFLX, META, IBM, ORCL, INTC, AMD, SAP, SHOP, DIS, NKE, PFE, BA, KO, V"
)
CURRENCIES = {
    "USD": "US dollars|dollars", "EUR": "euros", "GBP": "British pounds|pounds", "JPY": "Japanese yen|yen",
    "CNY": "Chinese yuan", "INR": "Indian rupees|rupees", "CAD": "Canadian dollars", "AUD": "Australian dollars",
    "CHF": "Swiss francs", "BRL": "Brazilian reals", "MXN": "Mexican pesos", "KRW": "Korean won",
    "SEK": "Swedish kronor", "NOK": "Norwegian kroner", "PLN": "Polish zloty", "TRY": "Turkish lira",
}  # fmt: skip
LANGUAGES = _words("""French, Spanish, German, Italian, Japanese, Chinese, Korean, Portuguese, Russian, Arabic, Hindi, Dutch,
Turkish, Polish, Swedish, Greek, Finnish, Czech, Danish, Hebrew, Swahili, Vietnamese, English""")
SPECIES = _words("""African elephant, blue whale, snow leopard, bald eagle, emperor penguin, giant panda, red fox,
monarch butterfly, great white shark, axolotl, barn owl, honey bee, gray wolf, Komodo dragon, sea otter, orangutan,
Canis lupus, Quercus robur, Panthera tigris, Apis mellifera, hedgehog, octopus, salmon, koala""")
PLANTS = _words("""rose, tulip, orchid, cactus, basil, tomato, fern, lavender, mint, monstera, bonsai, peace lily, aloe vera,
hydrangea, sunflower, rosemary, ficus, African violet""")
FOODS = _words("""apple, banana, chicken breast, brown rice, salmon, avocado, almonds, oatmeal, broccoli, cheddar cheese, egg,
lentils, peanut butter, white bread, yogurt, tofu, spinach, sweet potato, dark chocolate, orange juice""")
DISHES = _words("""moussaka, chicken curry, pad thai, beef stew, mushroom risotto, vegetable soup, tacos, ramen, pancakes,
apple pie, falafel, paella, caesar salad, banana bread, goulash, sushi, shakshuka, chili, ratatouille, dumplings, tiramisu""")
INGREDIENTS = _words("""milk, eggs, flour, sugar, butter, rice, onions, garlic, tomatoes, chicken, spinach, cheese, carrots,
potatoes, mushrooms, pasta, olive oil, beans, honey, apples, bananas, coffee, bread, lemons, chickpeas, peanuts""")
CUISINES = _words(
    "Italian, Chinese, Mexican, Thai, Indian, French, Greek, Japanese, Korean, Ethiopian, Lebanese, Spanish"
)
PRODUCTS = _words("""laptop, phone, headphone, keyboard, backpack, jacket, desk lamp, coffee maker, blender, camera, tent,
bicycle, notebook, water bottle, monitor, office chair, watch, guitar, rain coat, vacuum cleaner, t-shirt, sofa, tablet,
yoga mat, drone, printer, hiking boot, mug""")
BRANDS = _words("Sony, Bose, Logitech, Nike, Patagonia, Ikea, Philips, Canon, Lenovo, Garmin, Lego, Makita, Dyson")
COLORS = _words("red, blue, green, yellow, black, white, purple, orange, pink, gray, brown, turquoise, beige, navy")
CARS = _words("Toyota Corolla, Honda Civic, Ford Focus, Tesla Model 3, VW Golf, BMW X5, Fiat 500, Volvo XC60, Kia Niro")
TEAMS = _words("""Real Madrid, Manchester United, Los Angeles Lakers, Golden State Warriors, FC Barcelona, Bayern Munich,
Chicago Bulls, Boston Celtics, Liverpool, Juventus, Arsenal, Miami Heat, New York Yankees, Ajax, Dallas Cowboys""")
MOVIES = _words("""Inception, The Matrix, Titanic, Casablanca, Interstellar, Parasite, Amélie, Spirited Away, The Godfather,
Jaws, Gladiator, Alien, Vertigo, Up, Rocky, Her, Psycho, Coco, Arrival, Metropolis""")
BOOKS = _words("""Dune, Emma, Moby-Dick, The Hobbit, 1984, Ulysses, Dracula, The Trial, Jane Eyre, Walden, Candide,
Crime and Punishment, The Odyssey, Beloved, Middlemarch, The Stranger, Frankenstein""")
AUTHORS = _words("""Jane Austen, Franz Kafka, Leo Tolstoy, Virginia Woolf, Mark Twain, Toni Morrison, Haruki Murakami,
Agatha Christie, Jorge Luis Borges, Chinua Achebe, Oscar Wilde, George Orwell, Mary Shelley""")
SONGS = _words("""Bohemian Rhapsody, Imagine, Yesterday, Billie Jean, Hotel California, Purple Rain, Thriller, Hallelujah,
Wonderwall, Clocks, Viva la Vida, Halo, Africa, Space Oddity, Smooth, Respect, Fast Car, Dreams""")
ARTISTS = _words("""Queen, Adele, Coldplay, Miles Davis, Taylor Swift, Bach, Radiohead, Beyoncé, Bob Dylan, ABBA, Nina Simone,
Metallica, Shakira, Ed Sheeran, Daft Punk, Björk, The Beatles, Mozart""")
PLAYLISTS = _words(
    "Road Trip, Chill Vibes, Workout, Focus, Party 2024, Sunday Morning, Rainy Days, Deep Sleep, Throwback"
)
MUSIC_GENRES = _words("jazz, rock, classical, hip hop, techno, country, reggae, blues, folk, metal")
INSTRUMENTS = _words("piano, guitar, violin, cello, drums, flute, saxophone, trumpet, clarinet, harp, ukulele")
GENRES = _words(
    "comedy, thriller, science fiction, horror, romance, drama, fantasy, documentary, mystery, adventure, western"
)
GAMES = _words(
    "Starfall Arena, Chess Masters, Realm of Ash, Turbo League, Block World, Shadow Ops, Farm Story, Orbit 9"
)
PAINTINGS = _words(
    "Mona Lisa, The Starry Night, Guernica, The Scream, Girl with a Pearl Earring, Water Lilies, The Kiss"
)
PAINTERS = _words("""Pablo Picasso, Claude Monet, Frida Kahlo, Rembrandt, Georgia O'Keeffe, Edvard Munch, Auguste Rodin,
Camille Claudel, Henry Moore, Gustav Klimt, Louise Bourgeois""")
MUSEUMS = _words(
    "Louvre, British Museum, Prado, Uffizi, Hermitage, Rijksmuseum, Guggenheim, Tate Modern, Pergamon Museum"
)
EVENTS_PAST = _words("""French Revolution, Battle of Hastings, fall of the Berlin Wall, Moon landing, Congress of Vienna,
Great Fire of London, signing of the Magna Carta, Boxer Rebellion, Battle of Waterloo, Industrial Revolution, Black Death""")
FIGURES = _words("""Cleopatra, Napoleon Bonaparte, Marie Curie, Genghis Khan, Nelson Mandela, Ada Lovelace, Julius Caesar,
Isaac Newton, Simón Bolívar, Joan of Arc, Leonardo da Vinci, Catherine the Great, Charles Darwin, Nikola Tesla""")
RIVERS = _words("Nile, Amazon, Danube, Mississippi, Rhine, Yangtze, Ganges, Volga, Thames, Mekong, Congo, Seine")
MOUNTAINS = _words(
    "Mount Everest, K2, Kilimanjaro, Mont Blanc, Denali, Matterhorn, Mount Fuji, Aconcagua, Elbrus, Etna"
)
PLANETS = _words("Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune")
STARS = _words(
    "Sirius, Betelgeuse, Vega, Polaris, Rigel, Alpha Centauri, Aldebaran, Antares, Arcturus, Proxima Centauri"
)
ELEMENTS = _words(
    "hydrogen, helium, carbon, nitrogen, oxygen, sodium, iron, copper, silver, gold, mercury, lead, uranium, neon"
)
FORMULAS = _words(
    "H2O, CO2, NaCl, C6H12O6, H2SO4, CH4, NH3, CaCO3, C2H5OH, HNO3, KMnO4, Fe2O3, C8H10N4O2, NaHCO3, H2O2"
)
DISEASES = _words(
    "diabetes, influenza, malaria, asthma, migraine, measles, pneumonia, arthritis, anemia, dengue, eczema, gout"
)
DRUGS = _words(
    "aspirin, ibuprofen, amoxicillin, paracetamol, metformin, warfarin, lisinopril, omeprazole, insulin, cetirizine"
)
JOBS = _words(
    "data engineer, nurse, teacher, plumber, graphic designer, accountant, software developer, chef, electrician, lawyer"
)
SUBJECTS = _words("""calculus, organic chemistry, world history, Spanish, machine learning, linear algebra, biology, music theory,
economics, photography, creative writing, astronomy, statistics, philosophy""")
UNIVERSITIES = _words(
    "Harvard University, MIT, University of Oxford, ETH Zurich, Stanford University, University of Tokyo, Sorbonne"
)
TOPICS = _words("""climate change, quantum computing, machine learning, the Roman Empire, black holes, electric cars,
renewable energy, ancient Egypt, nutrition, space travel, robotics, cybersecurity, vaccines, jazz music, modern art,
gardening, personal finance, remote work, supply chains, deep sea life, artificial intelligence, urban planning, chess""")
QUERIES = _words("""best hiking trails in the Alps, how to fix a leaking tap, cheap flights to Lisbon, symptoms of vitamin D deficiency,
history of the fax machine, python dataclass tutorial, vegan protein sources, used electric bikes, solar eclipse dates,
how to prune roses, remote jobs for translators, museum free entry days, low light house plants, tax deadline extension""")
ROOMS = _words("kitchen, living room, bedroom, bathroom, office, hallway, garage, dining room, nursery, basement")
RESTAURANTS = _words(
    "Luigi's, The Golden Fork, Sakura, Chez Marie, El Toro, Blue Lagoon, Bistro 42, Spice Garden, Noma, The Old Mill"
)
HOTELS = _words(
    "Grand Plaza, Hilton Garden, Sea View Inn, Park Hyatt, Hotel Adlon, The Ritz, Alpine Lodge, City Express"
)
EVENTS = _words("""team meeting, dentist appointment, project review, birthday party, lunch with the client, yoga class,
budget planning, parent-teacher conference, book club, standup, job interview, product demo, piano recital""")
TASKS = _words("""call the bank, water the plants, submit the report, buy a present, renew the passport, pick up the kids,
review the contract, update the website, pay the rent, book the flights, clean the garage, back up the server,
write the release notes, order new chairs, prepare the slides""")
PROBLEMS = _words("""login page does not load, payment fails with error 402, printer is offline, app crashes on startup,
cannot reset password, invoice shows wrong amount, export takes too long, search returns no results, dark mode is unreadable""")
SENTENCES = _words("""I will be ten minutes late, the meeting is moved to Friday, happy birthday, please call me back,
dinner is at eight, the report is ready, thanks for your help, see you tomorrow, the package has arrived, we won the contract,
the server is back online, don't forget the keys, great job on the launch, the quick brown fox jumps over the lazy dog""")
PHRASES = _words("""good morning, where is the station?, thank you very much, how much does this cost?, I would like a coffee,
see you later, my name is Anna, the weather is nice today, can you help me?, I am lost, happy new year, what time is it?""")
REVIEWS = _words("""The food was cold and the waiter rude, I love this phone and its battery, Tim Cook visited Paris in May,
The room was clean but noisy, Worst purchase I ever made, A charming film with a weak ending, Delivery was fast and friendly""")
WORDS = _words("""alpha, report, orders, falcon, atlas, harvest, orion, summer, nova, delta, phoenix, mercury, aurora, cedar,
pioneer, apollo, ember, horizon, quartz, willow""")
RARE_WORDS = _words("""ephemeral, serendipity, ubiquitous, pragmatic, altruism, zenith, catalyst, nostalgia, paradox, resilient,
obfuscate, quixotic, sonder, gregarious, laconic""")
CODE_WORDS = _words(
    "TODO, FIXME, import os, def main, timeout, class User, password, console.log, async def, NullPointerException, retry"
)
SERVICES = _words("api, web, worker, billing, auth, frontend, payments, search, notifications, gateway, redis, nginx")
TABLES = _words("users, orders, customers, products, employees, invoices, students, sessions")
PACKAGES = _words("numpy, requests, pandas, flask, react, express, serde, tokio, pytest, lodash, django, scipy")
PROG_LANGS = _words("Python, JavaScript, Rust, Go, Java, C++, Ruby, TypeScript")
COMMIT_MESSAGES = _words(
    "fix typo, add tests, update docs, refactor parser, bump version, initial commit, remove dead code"
)
COMMANDS = _words("""ls -la, git status, df -h, python3 main.py, pytest -q, npm install, docker ps, whoami, uname -a, make build,
du -sh ., tail -n 20 app.log, cat README.md, ps aux, mkdir build, grep -r TODO src""")
SQLS = ["SELECT * FROM users", "SELECT name FROM products WHERE price > 20", "SELECT COUNT(*) FROM orders",
        "SELECT city, AVG(age) FROM customers GROUP BY city", "DELETE FROM sessions WHERE expired = 1",
        "SELECT id, total FROM invoices ORDER BY total DESC"]  # fmt: skip
FUNCTIONS = ["x^2", "3x^2 + 2x - 5", "x**3", "sin(x)", "e^x", "2*x + 1", "x^3 - 4x", "1/x", "cos(2x)", "ln(x)", "5x^4 - x",
             "sqrt(x)", "x^2 * exp(-x)", "4x**2 + 3x - 7", "tan(x)"]  # fmt: skip
TIME_ZONES = _words("UTC, EST, PST, CET, IST, JST, GMT, CST, America/New_York, Europe/Berlin, Asia/Tokyo")
MONTHS = _words("January, February, March, April, May, June, July, August, September, October, November, December")
WEEKDAYS = _words("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")
STREETS = _words(
    "Main Street, Oak Avenue, Maple Drive, 5th Avenue, Hill Road, Station Street, Elm Street, Park Lane, River Road"
)
DOMAINS = _words(
    "example.com, acme.org, weatherhub.io, mybank.net, openlibrary.org, shop.example, travelblog.com, devtools.dev"
)
FOLDERS = _words(
    "/tmp, src, docs, /home/anna, /var/log, ~/Downloads, data/raw, tests, /etc/nginx, build/output, notebooks"
)
FILES = _words(
    "notes.txt, report.pdf, data.csv, main.py, config.yaml, README.md, index.html, todo.md, results.json, app.log, utils.js"
)
IMAGES = _words("photo.png, banner.jpg, logo.png, cat.jpeg, holiday.tiff, scan.bmp, avatar.webp")
